// Forwards calls of a client of 2026-07-28 to a server of a handshake, and what the server asks for meanwhile.
import { type Completed, isStream, type ResponseStream, statusOf } from '@svc/core'
import { canonicalizeExact, isJsonObject, type JsonObject, stringifyJson } from '@svc/core/json'
import type { CallControl } from '@svc/core/pipeline'
import { type ClientExchange, writeOutcome } from '../http/client-exchange.js'
import { eventStreamHeaders } from '../http/event-stream-rules.js'
import type { BufferedResponse } from '../http/response.js'
import { invalidParams, isRequestId } from '../mcp/message.js'
import { metaOf, withMeta } from '../mcp/meta.js'
import { rpcCodes } from '../mcp/protocol.js'
import { rpcError } from '../mcp/rpc-error.js'
import type { Fields } from '../mcp/rpc-response.js'
import {
  type ClientRequest,
  ownServerRequest,
  sendToServer,
  type TranslatedRequest,
} from './client-request.js'
import { mayBeAsked } from './input-rounds.js'
import { type ClientWords, ParkedCall } from './parked-calls.js'
import { replyTo, type ServerLink } from './server-calls.js'

/** A call with the id `ownId` at its server. */
interface ServerCall {
  readonly link: ServerLink
  readonly ownId: string
  readonly message: JsonObject
}

/** The request with an ear for what its server asks; `call` is undefined until the server responds with a stream. */
export function withServerAsks(
  { session }: ClientRequest,
  sent: TranslatedRequest,
  call: () => ParkedCall | undefined,
): TranslatedRequest {
  const { translation } = sent
  return {
    ...sent,
    translation: {
      ...translation,
      message(message) {
        const { id, method, params } = message
        const running = call()
        if (running === undefined || !isRequestId(id) || !mayBeAsked(session, method))
          return translation.message(message)
        const { _meta, ...shown } = isJsonObject(params) ? params : {}
        running.take(id, { method, params: shown })
        return undefined
      },
    },
  }
}

/** The call if its server may ask for something: only one that responds with a stream can. */
export function parkableCall(
  { session }: ClientRequest,
  call: CallControl,
  { body }: Completed,
  { link, ownId, message }: ServerCall,
): ParkedCall | undefined {
  if (!session.isAskable || !isStream(body)) return undefined
  const server = { link, ownId, key: keyOf(link.server, message) }
  return new ParkedCall(call, body, wordsOf(message), server, session.parked)
}

/** Writes the first round, and resolves when the call has ended. */
export async function writeFirstRound(
  request: ClientRequest,
  client: ClientExchange,
  parked: ParkedCall,
  { headers, message }: Pick<Completed, 'headers'> & Pick<ServerCall, 'message'>,
  stopCancelling: () => Promise<void>,
): Promise<void> {
  await writeRound(client, parked, headers, wordsOf(message))
  await stopCancelling()
  await parked.ended
  if (parked.isAbandoned) await cancelAt(request, parked.server.link, parked.server.ownId)
}

/**
 * Gives the server what the client sends with its repeated call, and writes the next round. Throws `McpRefusal` if no such
 * call waits.
 */
export async function resumeParked(
  request: ClientRequest,
  server: string,
  message: JsonObject,
  client: ClientExchange,
): Promise<void> {
  const { session, calls, config } = request
  const { requestState, inputResponses } = paramsOf(message)
  const parked = session.parked.take(requestState)
  if (parked?.server.key !== keyOf(server, message)) {
    if (parked !== undefined) session.parked.restore(requestState, parked)
    throw invalidParams(
      'No call waits for this input: it has ended, is another one, or is at another gateway.',
    )
  }
  const { link, ownId } = parked.server
  for (const ask of parked.asks) {
    const given = isJsonObject(inputResponses) ? inputResponses[ask.key] : undefined
    const missing = { code: rpcCodes.invalidRequest, message: 'The client gave no input.' }
    const response = isJsonObject(given) ? { result: given } : { error: missing }
    // An idempotency key or an approval is for the call, which runs already.
    const sent = ownServerRequest(request, link, { jsonrpc: '2.0', id: ask.id, ...response })
    const cancel = (reason: string): void => parked.call.abort('CANCELLED', reason)
    const { outcome } = await replyTo(calls, sent, config.list_timeout_ms).catch((error: unknown) => {
      // The client cannot continue the call again.
      cancel('The input of the client could not be sent.')
      throw error
    })
    if (outcome.kind === 'completed') continue
    cancel('The input of the client was refused.')
    const { code, message: reason } = outcome
    return client.whole(
      jsonOf(rpcError(message['id'], statusOf(code), reason, { error: code, message: reason })),
    )
  }
  const stopCancelling = cancelOnLeave(request, link, ownId, client)
  await writeRound(client, parked, eventStreamHeaders, wordsOf(message))
  await stopCancelling()
}

async function writeRound(
  client: ClientExchange,
  parked: ParkedCall,
  headers: Completed['headers'],
  words: ClientWords,
): Promise<void> {
  const body: ResponseStream = { [Symbol.asyncIterator]: () => parked.round(words) }
  const outcome: Completed = { kind: 'completed', status: 200, headers: { ...headers }, body }
  await writeOutcome(client, parked.call, outcome, () => {
    throw new Error('a response that has begun is not refused')
  })
}

function jsonOf(message: object): BufferedResponse {
  return { status: 200, headers: { 'content-type': 'application/json' }, body: stringifyJson(message) }
}

function wordsOf(message: JsonObject): ClientWords {
  return { id: message['id'], progressToken: metaOf(message['params'])['progressToken'] }
}

/** The facts that the rounds of one call share. */
function keyOf(server: string, message: JsonObject): string {
  const { requestState, inputResponses, _meta, ...params } = paramsOf(message)
  return canonicalizeExact([server, message['method'] ?? null, params]).text
}

export function paramsOf({ params }: JsonObject): JsonObject {
  return isJsonObject(params) ? params : {}
}

// Requests of clients without sessions (2026-07-28) in a session of a server. Clients of one identity share it and begin
// with the same ids, so a request has an id of the gateway's own there, which is also its token for progress.

/** The request with the gateway's own id; what the server sends for it has the client's. */
export function withOwnId(request: TranslatedRequest, id: string): TranslatedRequest {
  const { message, translation } = request
  const { id: clientId } = message
  const { progressToken: token } = metaOf(message['params'])
  const own = token === undefined ? message : withMeta(message, { progressToken: id })
  return {
    ...request,
    ...(isRequestId(clientId) ? { clientId } : {}),
    message: { ...own, id },
    translation: {
      ...translation,
      async message(sent) {
        const shown = await translation.message(sent)
        return shown !== undefined && progressIn(shown)?.['progressToken'] === id
          ? { ...shown, params: { ...progressIn(shown), progressToken: token } }
          : shown
      },
    },
  }
}

function progressIn({ method, params }: Fields): Fields | undefined {
  return method === 'notifications/progress' && isJsonObject(params) ? params : undefined
}

/**
 * Cancels the request `requestId` at its server when the client leaves, as a disconnect has no meaning there. Returns a
 * function that stops this, and resolves when the server has got the cancellation.
 */
export function cancelOnLeave(
  request: ClientRequest,
  link: ServerLink,
  requestId: string,
  client: ClientExchange,
): () => Promise<void> {
  let cancelling: Promise<unknown> | undefined
  const stop = client.onDisconnect(() => {
    cancelling = cancelAt(request, link, requestId)
  })
  return async () => {
    stop()
    await cancelling
  }
}

/** Cancels the request `requestId` at its server. */
export async function cancelAt(request: ClientRequest, link: ServerLink, requestId: string): Promise<void> {
  const message = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } }
  await sendToServer(request, link, message)
}
