// Batches of messages, which only the revision 2025-03-26 has: each message is a call of its own, and one HTTP response
// holds the responses to all.
import { type Completed, failed, isStream, type Outcome } from '@svc/core'
import { isJsonObject, type JsonValue } from '@svc/core/json'
import type { ParsedBody } from '../http/client-exchange.js'
import { PROTOCOL_VERSION_HEADER } from '../http/header-names.js'
import type { BufferedResponse, ErrorSubject } from '../http/response.js'
import { type Denials, encodeRefusal, refusalMessage, rpcErrorResponse } from './encode-refusal.js'
import type { McpExchange } from './exchange.js'
import { invalidRequest } from './mcp-refusal.js'
import { parseJsonBody, type RequestId } from './message.js'
import { BATCH_REVISION } from './protocol.js'
import { type Fields, isResponse } from './rpc-response.js'
import type { ReceivedMessage } from './servers.js'
import { shownEvent, shownMessage } from './shown-messages.js'

/** Each message is a call with a record, and all run at the same time. */
const maxMessages = 50

/** Headers that name one call. */
const single = ['idempotency-key', 'x-idempotency-key', 'x-escalation-id', 'x-escalation-emergency']

/** The messages of a batch; undefined if the body is not a batch. Throws `McpRefusal`. */
export function messagesIn(
  bytes: Uint8Array,
  headers: McpExchange['headers'],
): readonly [ParsedBody, ...ParsedBody[]] | undefined {
  if (!beginsArray(bytes)) return undefined
  // Clients of this revision send no header with it.
  const revision = headers[PROTOCOL_VERSION_HEADER] ?? BATCH_REVISION
  if (revision !== BATCH_REVISION) throw invalidRequest('This revision has no batches.')
  const batch = parseJsonBody(bytes)
  if (!Array.isArray(batch)) throw invalidRequest('A message is a JSON object.')
  if (batch.length > maxMessages) throw invalidRequest(`A batch has at most ${maxMessages} messages.`)
  const named = single.find((name) => headers[name] !== undefined)
  if (named !== undefined) throw invalidRequest(`${named}: a batch names it in the _meta of a message.`)
  if (batch.some((message) => isJsonObject(message) && message['method'] === 'initialize')) {
    throw invalidRequest('A batch must not have an initialize request.')
  }
  const [first, ...others] = batch.map(writtenBody)
  if (first === undefined) throw invalidRequest('The batch is empty.')
  return [first, ...others]
}

/** A message as a body of its own. */
export function writtenBody(value: JsonValue): ParsedBody {
  const text = JSON.stringify(value)
  return { value, text, bytes: Buffer.byteLength(text) }
}

/** Whether the text begins as a JSON array does. */
function beginsArray(bytes: Uint8Array): boolean {
  return bytes.find((byte) => byte !== 0x20 && byte !== 0x09 && byte !== 0x0a && byte !== 0x0d) === 0x5b
}

/** The response to one message of a batch. */
export interface MessageOutcome {
  readonly whole: BufferedResponse
  /** The JSON-RPC response; undefined if the message needs none. */
  readonly response: ReceivedMessage | undefined
}

/** Reads the response; the other events of a stream are dropped. */
export async function readMessageOutcome(
  exchange: McpExchange,
  outcome: Outcome,
  call: ErrorSubject,
  denials: Denials,
): Promise<MessageOutcome> {
  const { id } = exchange
  if (outcome.kind !== 'completed') {
    const whole = encodeRefusal(exchange, outcome, call, denials)
    // A notification gets no response; the response to a value that is not a message has the id null.
    if (id === undefined && exchange.message !== undefined) return { whole, response: undefined }
    return { whole, response: written(refusalMessage(exchange, outcome, call, denials)) }
  }
  const { status, headers, body } = outcome
  const whole = { status, headers, body: isStream(body) ? '' : body }
  if (id === undefined) return { whole, response: undefined }
  const missing = failed('UPSTREAM_UNREACHABLE', 'The upstream sent no JSON-RPC response.')
  const response = (await responseIn(outcome, id)) ?? written(rpcErrorResponse(id, missing, call))
  return { whole, response }
}

function written(message: Fields): ReceivedMessage {
  return { message, text: JSON.stringify(message) }
}

async function responseIn({ body }: Completed, id: RequestId): Promise<ReceivedMessage | undefined> {
  if (!isStream(body)) return responseTo(id, shownMessage(body))
  for await (const { bytes } of body) {
    const found = responseTo(id, shownEvent(bytes))
    if (found !== undefined) return found
  }
  return undefined
}

/** The message if it is the response to `id`. */
function responseTo(
  id: RequestId,
  { message, text }: Partial<ReceivedMessage> = {},
): ReceivedMessage | undefined {
  const isFound = message !== undefined && text !== undefined && isResponse(message) && message['id'] === id
  return isFound ? { message, text } : undefined
}

/** The HTTP response to all messages: the JSON-RPC responses, else the first refusal, else 202. */
export function batchResponse(outcomes: readonly MessageOutcome[]): BufferedResponse {
  const responses = outcomes.flatMap(({ response }) => response?.text ?? [])
  const gone = outcomes.find(({ whole }) => whole.status === 404)
  // The session has ended for all messages, and clients begin a new one if the HTTP status is 404.
  if (gone !== undefined && outcomes.every(({ whole }) => whole.status === 404)) return gone.whole
  if (responses.length > 0) {
    const headers = { 'content-type': 'application/json' }
    return { status: 200, headers, body: `[${responses.join(',')}]` }
  }
  const refused = outcomes.find(({ whole }) => whole.status >= 400)
  return refused?.whole ?? { status: 202, headers: {}, body: '' }
}
