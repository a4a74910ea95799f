// Routes a request to one server: replaces the client's names by the server's own, and passes the response on.
import { type Completed, isStream, type Outcome, type ResponseChunk, type ResponseStream } from '@svc/core'
import { isJsonObject, type JsonObject } from '@svc/core/json'
import type { CallControl } from '@svc/core/pipeline'
import { type WriteOutcome, writeAttempt } from '../escalations/elicitation/held-calls.js'
import type { ClientExchange } from '../http/client-exchange.js'
import { SESSION_ID_HEADER } from '../http/header-names.js'
import { isSessionLost } from '../mcp/handshake.js'
import type { RpcRequest } from '../mcp/message.js'
import { invalidParams } from '../mcp/message.js'
import type { Encoding } from '../mcp/message-outcome.js'
import { statusOfStateless } from '../mcp/rpc-error.js'
import type { Fields } from '../mcp/rpc-response.js'
import { shownMessage } from '../mcp/servers.js'
import { taskOfClientId } from '../mcp/session-binding.js'
import { withUri } from './apps.js'
import { sourceOfName, sourceOfUri } from './catalog.js'
import { withClientEventId } from './client-message.js'
import { type ClientRequest, serverRequest, type TranslatedRequest, withLink } from './client-request.js'
import { type InputRounds, withInputRounds } from './input-rounds.js'
import { type EntrySource, isInterface } from './names.js'
import { type ParkedCall, ParkedCalls } from './parked-calls.js'
import {
  cancelOnLeave,
  paramsOf,
  parkableCall,
  resumeParked,
  withOwnId,
  withServerAsks,
  writeFirstRound,
} from './server-asks.js'
import { type ServerLink, type ServerRequest, ServerUnavailable } from './server-calls.js'

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
  if (message.method === 'resources/subscribe' && session.subscribed.add(source, uri)) await session.save()
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
): Promise<void> {
  const { server, message } = routed
  if (request.session.isStateless && ParkedCalls.isState(paramsOf(message)['requestState']))
    return resumeParked(request, server, message, client)
  let attempts = 0
  const send = async (link: ServerLink): Promise<{ status: number; isSessionLost: boolean }> => {
    const mayReopen = ++attempts === 1 && link.sessionId !== undefined
    return { status: 200, isSessionLost: await new RoutedCall(request, routed, link, client).run(mayReopen) }
  }
  try {
    await withLink(request, server, undefined, send)
  } catch (error) {
    if (!(error instanceof ServerUnavailable)) throw error
    // The call is sent without a session, so that it is recorded under its own name.
    const { isStateless, client: facts } = request.session
    const session = { revision: facts.revision, isStateless, sessionId: undefined }
    await send({ server, ...session, capabilities: {}, serverInfo: {} })
  }
}

/** The call of a request in a session with its server, and its repetitions with what the client gives meanwhile. */
class RoutedCall {
  #request: ClientRequest
  #routed: Routed
  #link: ServerLink
  #client: ClientExchange
  /** Set if the client shares the session, in which its own id may be that of another request. */
  #ownId: string | undefined
  #stopCancelling: (() => Promise<void>) | undefined
  #parked: ParkedCall | undefined
  #isSessionLost = false

  constructor(request: ClientRequest, routed: Routed, link: ServerLink, client: ClientExchange) {
    this.#request = request
    this.#routed = routed
    this.#link = link
    this.#client = client
    // Clients of one identity without sessions share one, and begin with the same ids.
    if (!request.session.isStateless || link.isStateless) return
    this.#ownId = request.session.nextOwnId()
    this.#stopCancelling = cancelOnLeave(request, link, this.#ownId, client)
  }

  /** Returns whether the server has lost the session, if it `mayReopen`: the client then has no response yet. */
  async run(mayReopen: boolean): Promise<boolean> {
    const sent = requestOf(this.#request, this.#link, this.#routed)
    const sending =
      this.#ownId === undefined
        ? sent
        : withOwnId(
            withServerAsks(this.#request, sent, () => this.#parked),
            this.#ownId,
          )
    try {
      await this.#runHeld(sending, async (call, outcome, encoding) => {
        const isError = outcome.kind === 'completed' && outcome.error !== undefined
        this.#isSessionLost = mayReopen && isError && hasLostSession(outcome)
        if (!this.#isSessionLost) await this.#respond(call, outcome, encoding)
      })
    } finally {
      await this.#stopCancelling?.()
    }
    return this.#isSessionLost
  }

  /** Runs the call, and again while its response waits for the person at the client. */
  #runHeld(sending: ServerRequest, respond: WriteOutcome<Encoding>): Promise<void> {
    const { calls } = this.#request
    return calls.heldCalls.serve(
      this.#client,
      (elicited, write) => calls.run({ ...sending, elicited }, write),
      respond,
      (call) => calls.mcp.askedClient(call, this.#client),
    )
  }

  async #respond(call: CallControl, outcome: Outcome, encoding: Encoding): Promise<void> {
    const client = this.#client
    const { message } = this.#routed
    const shown = this.#shown(outcome)
    if (this.#ownId !== undefined && this.#stopCancelling !== undefined && shown.kind === 'completed') {
      const atServer = { link: this.#link, ownId: this.#ownId, message }
      this.#parked = parkableCall(this.#request, call, shown, atServer)
      if (this.#parked !== undefined) {
        const head = { headers: shown.headers, message }
        return writeFirstRound(this.#request, client, this.#parked, head, this.#stopCancelling)
      }
    }
    const rest =
      outcome.kind === 'completed' && this.#request.session.hasInputRounds
        ? this.#shown(withInputRounds(outcome, this.#roundsOf(call)))
        : shown
    await writeAttempt(client, call, rest, encoding)
  }

  /** The outcome in the client's era, without the server's session id, and with event ids that name the server. */
  #shown(outcome: Outcome): Outcome {
    if (outcome.kind !== 'completed') return outcome
    const { [SESSION_ID_HEADER]: _session, ...headers } = outcome.headers
    const { body } = outcome
    const { server, isStateless: isOfServer } = this.#link
    if (isStream(body)) {
      const shown = { ...body, [Symbol.asyncIterator]: () => withClientEventIds(server, body) }
      return { ...outcome, headers, body: shown }
    }
    const { isStateless: isOfClient } = this.#request.session
    if (isOfClient === isOfServer) return { ...outcome, headers }
    const { message } = shownMessage(body) ?? {}
    let { status } = outcome
    if (isOfClient && message !== undefined && status === 200) status = statusOfStateless(message)
    // Up to 2025-11-25 an HTTP error is one of the transport, and 404 ends the session.
    if (!isOfClient && message !== undefined && (status === 400 || status === 404)) status = 200
    return { ...outcome, headers, status }
  }

  #roundsOf(call: CallControl): InputRounds {
    const { session, calls } = this.#request
    return {
      session,
      asked: calls.mcp.requests,
      id: this.#routed.message['id'],
      hold: () => {
        const { cancelled, release } = calls.mcp.askedClient(call, this.#client)
        const left = new AbortController()
        const stopListening = this.#client.onDisconnect(() => left.abort())
        if (this.#client.isDisconnected) left.abort()
        return {
          signal: AbortSignal.any([left.signal, call.signal, cancelled]),
          release() {
            stopListening()
            release?.()
          },
        }
      },
      repeat: (params, use) => {
        const again = requestOf(
          withoutEscalation(this.#request),
          this.#link,
          withParams(this.#routed, params),
        )
        return this.#runHeld(again, (next, outcome, encoding) =>
          use({ outcome, response: () => encoding.response(outcome, next) }),
        )
      },
    }
  }
}

function hasLostSession({ status, body }: Completed): boolean {
  return !isStream(body) && isSessionLost(status, shownMessage(body)?.message)
}

/** The request to the server, whose response is in the words of the client. */
function requestOf(request: ClientRequest, link: ServerLink, { message, shown }: Routed): TranslatedRequest {
  const routed = serverRequest(request, link, message)
  if (shown === undefined) return routed
  const { translation, ...sent } = routed
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

async function* withClientEventIds(server: string, body: ResponseStream): AsyncGenerator<ResponseChunk> {
  for await (const chunk of body) yield { ...chunk, bytes: withClientEventId(server, chunk.bytes) }
}
