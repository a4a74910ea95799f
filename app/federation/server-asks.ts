// Forwards calls of a client of 2026-07-28 to a server of a handshake, and what the server asks for meanwhile.
import { type Completed, isStream, type ResponseStream, statusOf } from '@svc/core'
import { canonicalize, isJsonObject, type JsonObject } from '@svc/core/json'
import type { CallControl } from '@svc/core/pipeline'
import type { ClientExchange } from '../http/client-exchange.js'
import { writeOutcome } from '../http/client-exchange.js'
import { eventStreamHeaders } from '../http/event-stream-rules.js'
import type { BufferedResponse } from '../http/response.js'
import { isAskable } from '../mcp/handshake.js'
import { invalidParams } from '../mcp/mcp-refusal.js'
import { isRequestId } from '../mcp/message.js'
import { metaOf } from '../mcp/meta.js'
import { rpcCodes } from '../mcp/protocol.js'
import { rpcError } from '../mcp/rpc-error.js'
import { type ClientRequest, serverRequest, type TranslatedRequest } from './client-request.js'
import { mayBeAsked } from './input-rounds.js'
import { type ClientWords, ParkedCall, ParkedCalls } from './parked-calls.js'
import { replyTo } from './server-calls.js'
import type { ServerLink } from './server-link.js'
import { cancelAt, cancelOnLeave } from './shared-session.js'

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
  if (!isAskable(session.client.capabilities) || !isStream(body)) return undefined
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
    const own = { ...request, headers: request.ownHeaders }
    const sent = serverRequest(own, link, { jsonrpc: '2.0', id: ask.id, ...response })
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
  return { status: 200, headers: { 'content-type': 'application/json' }, body: JSON.stringify(message) }
}

function wordsOf(message: JsonObject): ClientWords {
  return { id: message['id'], progressToken: metaOf(message['params'])['progressToken'] }
}

/** The facts that the rounds of one call share. */
function keyOf(server: string, message: JsonObject): string {
  const { requestState, inputResponses, _meta, ...params } = paramsOf(message)
  return canonicalize([server, message['method'] ?? null, params])
}

function paramsOf({ params }: JsonObject): JsonObject {
  return isJsonObject(params) ? params : {}
}

/** Whether the message is a later round of a call that waits in this process. */
export function isLaterRound(message: JsonObject): boolean {
  return ParkedCalls.isState(paramsOf(message)['requestState'])
}
