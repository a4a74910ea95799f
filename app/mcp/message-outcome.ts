// The response to one message, read whole, for a response that holds more than it.
import { type Completed, failed, isStream, type Outcome } from '@svc/core'
import type { BufferedResponse, ErrorSubject } from '../http/response.js'
import { type Denials, encodeRefusal, refusalMessage, rpcErrorResponse } from './encode-refusal.js'
import type { McpExchange } from './exchange.js'
import type { RequestId } from './protocol.js'
import { type Fields, isResponse } from './rpc-response.js'
import type { ReceivedMessage } from './servers.js'
import { shownEvent, shownMessage } from './shown-messages.js'

/** The response to one message. */
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
