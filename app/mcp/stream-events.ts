// Reads the events of an upstream's stream, and says what a stream that broke off means for its call.
import { type Failed, failed, isRefusal } from '@svc/core'
import { readEvent, type SseEvent, SseOverflow, SseSplitter, withData } from '@svc/core/http'
import { hasDuplicateMembers, MAX_COST } from '@svc/core/json'
import { isUpstreamError, type UpstreamAnswer } from '../upstream/answer.js'
import { type Fields, isResponse, ProtocolViolation, readServerMessage } from './rpc-response.js'

/** A block of a stream; one that is no event, such as a comment, has bytes only. */
export interface ReceivedBlock {
  readonly bytes: Uint8Array
  readonly event?: SseEvent
  /** The JSON-RPC message of the event. */
  readonly message?: Fields
}

/** An event with a message. */
export type MessageBlock = Required<ReceivedBlock>

export function hasMessage(block: ReceivedBlock): block is MessageBlock {
  return block.message !== undefined
}

/** Throws `ProtocolViolation`, `SseOverflow`, `Refusal`, `UpstreamError`, or the reason of the abort. */
export async function* receivedBlocks(
  body: UpstreamAnswer['body'],
  maxEventBytes: number,
): AsyncGenerator<ReceivedBlock> {
  const splitter = new SseSplitter(Math.min(maxEventBytes, MAX_COST))
  for await (const piece of body instanceof Uint8Array ? [body] : body) {
    for (const { bytes, isEvent } of splitter.push(piece)) yield isEvent ? received(bytes) : { bytes }
  }
}

function received(bytes: Uint8Array): ReceivedBlock {
  const event = eventIn(bytes)
  const message = messageIn(event)
  return message === undefined ? { bytes, event } : { bytes, event, message }
}

function eventIn(bytes: Uint8Array): SseEvent {
  try {
    return readEvent(bytes)
  } catch (cause) {
    throw new ProtocolViolation('The upstream sent an event that is not UTF-8.', { cause })
  }
}

/** Only events of type `message` must hold a message; most clients ignore other types. */
function messageIn(event: SseEvent): Fields | undefined {
  if (event.data === '') return undefined
  const message = read(event)
  if (message !== undefined && event.type !== 'message' && isResponse(message)) {
    throw new ProtocolViolation('The upstream sent a response in an event that clients may ignore.')
  }
  return message
}

function read(event: SseEvent): Fields | undefined {
  try {
    return readServerMessage(event.data)
  } catch (fault) {
    if (fault instanceof ProtocolViolation && event.type !== 'message') return undefined
    throw fault
  }
}

/** The event as it came, where nothing was changed and every parser reads it alike. */
export function eventShowing(block: MessageBlock, shown: Fields): Uint8Array {
  const { bytes, event, message } = block
  const isSame = shown === message && !hasDuplicateMembers(event.data, message)
  return isSame ? bytes : withData(bytes, JSON.stringify(shown))
}

const interruptions: ReadonlySet<string> = new Set(['UPSTREAM_UNREACHABLE', 'DRAINING', 'CANCELLED'])

/** Whether the connection ended and nothing is wrong with the answer: a client may resume the stream. */
export function isInterruption(fault: unknown): boolean {
  return isRefusal(fault) ? interruptions.has(fault.code) : isUpstreamError(fault)
}

/** The outcome of an error after the answer's head. Rethrows internal errors. */
export function failureOf(fault: unknown): Failed {
  if (isRefusal(fault)) return failed(fault.code, fault.message, { cause: fault.cause })
  if (fault instanceof SseOverflow) {
    return failed('PAYLOAD_TOO_LARGE', `The response is too large: ${fault.message}.`)
  }
  if (fault instanceof ProtocolViolation || isUpstreamError(fault)) {
    return failed('UPSTREAM_UNREACHABLE', fault.message, { cause: fault.cause ?? fault })
  }
  throw fault
}
