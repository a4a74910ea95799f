// Routes a request to one server: replaces the client's names by the server's own, and passes the response on.
import { type Call, isStream, type Outcome, type ResponseChunk, type ResponseStream } from '@svc/core'
import { isJsonObject, type JsonObject } from '@svc/core/json'
import { type Attempt, attemptOf, writeAttempt } from '../escalations/elicitation/attempt.js'
import type { ClientExchange } from '../http/client-exchange.js'
import { SESSION_ID_HEADER } from '../http/header-names.js'
import { type AskedClient, progressTokenOf } from '../mcp/elicitation.js'
import type { ElicitationResponse } from '../mcp/elicitation-modes.js'
import { invalidParams } from '../mcp/mcp-refusal.js'
import type { RpcRequest } from '../mcp/message.js'
import { isStateless } from '../mcp/protocol.js'
import type { Fields } from '../mcp/rpc-response.js'
import { isSessionLost } from '../mcp/server-sessions.js'
import { taskOfClientId } from '../mcp/session-binding.js'
import { shownMessage } from '../mcp/shown-messages.js'
import { withUri } from './apps.js'
import type { CancellableRequest } from './cancellable-request.js'
import { sourceOfName, sourceOfUri } from './catalog.js'
import { type ClientRequest, serverRequest, type TranslatedRequest, withLink } from './client-request.js'
import { hasInputRounds, type InputRounds, withInputRounds } from './input-rounds.js'
import type { EntrySource } from './names.js'
import type { ParkedCall } from './parked-calls.js'
import { isInterface } from './resource-uris.js'
import { isLaterRound, parkableCall, resumeParked, withServerAsks, writeFirstRound } from './server-asks.js'
import { withClientEventId } from './server-ids.js'
import { type ServerLink, ServerUnavailable } from './server-link.js'
import type { FederationSession } from './session.js'
import { cancelOnLeave, isShared, withOwnId } from './shared-session.js'

/** The server of a request, and the request with the server's own names. */
interface Routed {
  readonly server: string
  readonly message: JsonObject
  /** The response in the words of the client. */
  readonly shown?: (response: Fields) => Fields
}

type RequestRouter = (request: ClientRequest, message: RpcRequest) => Promise<Routed>

const byUri: RequestRouter = async (request, message) => {
  const uri = textOf(message.params, 'uri')
  const source = await sourceOfUri(request, uri)
  const { session } = request
  if (message.method === 'resources/subscribe' && session.subscribed.add(source, uri))
    await session.shared?.save(session.settings)
  const routed = routedTo(source, message, { uri: source.name })
  if (!isInterface(uri)) return routed
  return { ...routed, shown: (response) => withUri(response, source.name, uri) }
}

const routers: Readonly<Record<string, RequestRouter>> = {
  'tools/call': byName('tools'),
  'prompts/get': byName('prompts'),
  'resources/read': byUri,
  'resources/subscribe': byUri,
  'resources/unsubscribe': byUri,
  'completion/complete': byReference,
  'tasks/get': byTask,
  'tasks/result': byTask,
  'tasks/update': byTask,
  'tasks/cancel': byTask,
}

/** The router of a method; undefined for methods that do not name an entry of a server. */
export function routerOf(method: string): RequestRouter | undefined {
  return Object.hasOwn(routers, method) ? routers[method] : undefined
}

function byName(kind: 'tools' | 'prompts'): RequestRouter {
  return async (request, message) => {
    const source = await sourceOfName(request, kind, textOf(message.params, 'name'))
    return routedTo(source, message, { name: source.name })
  }
}

async function byReference(request: ClientRequest, message: RpcRequest): Promise<Routed> {
  const { ref } = message.params
  if (!isJsonObject(ref)) throw invalidParams('ref: expected an object.')
  const isPrompt = ref['type'] === 'ref/prompt'
  const source = isPrompt
    ? await sourceOfName(request, 'prompts', textOf(ref, 'name'))
    : await sourceOfUri(request, textOf(ref, 'uri'))
  return routedTo(source, message, { ref: { ...ref, [isPrompt ? 'name' : 'uri']: source.name } })
}

async function byTask({ servers }: ClientRequest, { whole, params }: RpcRequest): Promise<Routed> {
  const server = taskOfClientId(textOf(params, 'taskId'))?.server
  if (server !== undefined && servers.includes(server)) return { server, message: whole }
  throw invalidParams('There is no such task of this caller.')
}

function routedTo({ server }: EntrySource, { whole, params }: RpcRequest, own: JsonObject): Routed {
  return { server, message: { ...whole, params: { ...params, ...own } } }
}

function textOf(params: JsonObject, member: string): string {
  const text = params[member]
  if (typeof text !== 'string' || text === '') throw invalidParams(`${member}: expected a text.`)
  return text
}

/** Sends the request to its server, and writes the response. */
export async function forwardRouted(
  request: ClientRequest,
  routed: Routed,
  client: ClientExchange,
  cancellable?: CancellableRequest,
): Promise<void> {
  const { server, message } = routed
  if (isLaterRound(message)) return resumeParked(request, server, message, client)
  let attempts = 0
  const send = async (link: ServerLink): Promise<{ status: number; isSessionLost: boolean }> => {
    const mayRepeat = ++attempts === 1 && link.sessionId !== undefined
    let isLost = false
    const onCall = (call: Call): void => cancellable?.begin(call, server)
    const sent = requestOf(request, link, routed)
    const ownId = isShared(request, link) ? request.session.nextOwnId() : undefined
    let parked: ParkedCall | undefined
    const sending =
      ownId === undefined
        ? { ...sent, onCall }
        : {
            ...withOwnId(
              withServerAsks(request, sent, () => parked),
              ownId,
            ),
            onCall,
          }
    const settled = ownId === undefined ? undefined : cancelOnLeave(request, link, ownId, client)
    const { heldCalls } = request.calls
    const askingBy = (elicited: ElicitationResponse | undefined) =>
      elicited === undefined ? {} : { elicited }
    /** Runs the call, and again while it resolves to an attempt whose response waits for the person at the client. */
    const runHeld = async (
      run: (elicited?: ElicitationResponse) => Promise<Attempt | undefined>,
    ): Promise<void> => {
      const waiting = await run()
      if (waiting === undefined) return
      const asked = askedClient(request.session, client, message, cancellable?.signal)
      await heldCalls.hold(asked, waiting, run)
    }
    const run = async (elicited?: ElicitationResponse): Promise<Attempt | undefined> => {
      let waiting: Attempt | undefined
      await request.calls.run({ ...sending, ...askingBy(elicited) }, async (call, outcome, encoding) => {
        isLost = mayRepeat && hasLostSession(outcome)
        if (isLost) return
        const shown = outcomeOfClient(outcome, server)
        if (heldCalls.asks(call, outcome)) {
          waiting = attemptOf(client, call, outcome, encoding)
          return
        }
        if (ownId !== undefined && settled !== undefined && shown.kind === 'completed') {
          parked = parkableCall(request, call, shown, { link, ownId, message })
          if (parked !== undefined) {
            await writeFirstRound(request, client, parked, { headers: shown.headers, message }, settled)
            return
          }
        }
        if (outcome.kind !== 'completed' || !hasInputRounds(request.session)) {
          await writeAttempt(client, call, shown, encoding)
          return
        }
        const left = new AbortController()
        const stopListening = client.onDisconnect(() => left.abort())
        const signals = [left.signal, call.signal, cancellable?.signal ?? []].flat()
        const rounds: InputRounds = {
          session: request.session,
          id: message['id'],
          signal: AbortSignal.any(signals),
          repeat(params, use) {
            const again = requestOf(withoutEscalation(request), link, withParams(routed, params))
            return runHeld(async (reply) => {
              let held: Attempt | undefined
              const sent = { ...again, onCall, ...askingBy(reply) }
              await request.calls.run(sent, async (next, result, reader) => {
                const write = (): Promise<void> =>
                  use({ outcome: result, response: () => reader.response(result, next) })
                if (!heldCalls.asks(next, result)) return write()
                held = { ...attemptOf(client, next, result, reader), write }
              })
              return held
            })
          },
        }
        try {
          const rest = outcomeOfClient(withInputRounds(outcome, rounds), server)
          await writeAttempt(client, call, rest, encoding)
        } finally {
          stopListening()
        }
      })
      return waiting
    }
    try {
      await runHeld(run)
    } finally {
      await settled?.()
    }
    return { status: 200, isSessionLost: isLost }
  }
  try {
    await withLink(request, server, undefined, send)
  } catch (error) {
    if (!(error instanceof ServerUnavailable)) throw error
    // The call is sent without a session, so that it is recorded under its own name.
    const { revision } = request.session.client
    const session = { revision, isStateless: isStateless(revision), sessionId: undefined }
    await send({ server, ...session, capabilities: {}, serverInfo: {} })
  }
}

function hasLostSession(outcome: Outcome): boolean {
  if (outcome.kind !== 'completed' || isStream(outcome.body)) return false
  return isSessionLost(outcome.status, shownMessage(outcome.body)?.message)
}

function askedClient(
  session: FederationSession,
  exchange: ClientExchange,
  { params }: JsonObject,
  cancelled = new AbortController().signal,
): AskedClient {
  return {
    exchange,
    progressToken: progressTokenOf(params),
    cancelled,
    nextId: () => session.nextOwnId(),
    async responseTo(id, signal, send) {
      const [response] = await Promise.all([session.asked.responseTo(id, signal), send()])
      return response
    },
  }
}

/** The request to the server, whose response is in the words of the client. */
function requestOf(
  request: ClientRequest,
  link: ServerLink,
  { message, shown = (response) => response }: Routed,
): TranslatedRequest {
  const { translation, ...sent } = serverRequest(request, link, message)
  const response = (given: Fields): Fields => shown(translation.response(given))
  return { ...sent, translation: { ...translation, response } }
}

function withParams(routed: Routed, more: JsonObject): Routed {
  const { message } = routed
  const params = isJsonObject(message['params']) ? message['params'] : {}
  return { ...routed, message: { ...message, params: { ...params, ...more } } }
}

/** An approval is valid for one call, and a repetition with input is another call. */
function withoutEscalation(request: ClientRequest): ClientRequest {
  const { 'x-escalation-id': _id, 'x-escalation-emergency': _reason, ...headers } = request.headers
  return { ...request, headers }
}

/** The outcome without the server's session id, and with event ids that name the server. */
function outcomeOfClient(outcome: Outcome, server: string): Outcome {
  if (outcome.kind !== 'completed') return outcome
  const { [SESSION_ID_HEADER]: _session, ...headers } = outcome.headers
  const { body } = outcome
  if (!isStream(body)) return { ...outcome, headers }
  return {
    ...outcome,
    headers,
    body: { ...body, [Symbol.asyncIterator]: () => withClientEventIds(server, body) },
  }
}

async function* withClientEventIds(server: string, body: ResponseStream): AsyncGenerator<ResponseChunk> {
  for await (const chunk of body) yield { ...chunk, bytes: withClientEventId(server, chunk.bytes) }
}
