// A streamed answer: events are passed on as they come; the one that holds this call's response is marked, so that the
// pipeline sends it only when the call is recorded.
import {
  type AnswerChunk,
  type AnswerStream,
  type Denied,
  type Failed,
  failed,
  isRefusal,
  type Outcome,
  Refusal,
} from '@svc/core'
import { eventOf, readEvent, type SseEvent, SseOverflow, SseSplitter, withData } from '@svc/core/http'
import { hasDuplicateMembers } from '@svc/core/json'
import { isUpstreamError, type UpstreamAnswer } from '../upstream/answer.js'
import type { RequestId } from './message.js'
import type { ResponseFilter } from './response-filter.js'
import {
  checkResponse,
  type Fields,
  isResponse,
  ProtocolViolation,
  readServerMessage,
  verdictOf,
} from './rpc-response.js'

export interface StreamParts {
  readonly body: UpstreamAnswer['body']
  /** The request that waits for a response on this stream; undefined on a GET stream. */
  readonly id: RequestId | undefined
  /**
   * True where the request opens a stream of notifications (GET, `subscriptions/listen`): the call is recorded when
   * it opens, not when it ends.
   */
  readonly isStanding: boolean
  /** Whether the upstream works on when the caller disconnects, so that the outcome must be read. */
  readonly drainWhenAbandoned: boolean
  readonly maxEventBytes: number
  readonly review: ResponseFilter
  /** Whether the client has cancelled the request, which then needs no response. */
  isCancelled(): boolean
  /** A JSON-RPC error in place of the response. */
  encodeError(outcome: Denied | Failed): string
  /** The response is withheld, also from a client that resumes the stream. */
  withhold(): void
  /** The error in place of a withheld response that is replayed; undefined for a response that was not withheld. */
  replacementFor(response: Fields): string | undefined
}

export class McpAnswerStream implements AnswerStream {
  readonly drainWhenAbandoned: boolean
  #parts: StreamParts
  #splitter: SseSplitter
  /** A client may resume a stream whose events have ids. */
  #isResumable = false
  #isAnswered = false
  #isUnrecorded = false

  constructor(parts: StreamParts) {
    this.drainWhenAbandoned = parts.drainWhenAbandoned
    this.#parts = parts
    this.#splitter = new SseSplitter(parts.maxEventBytes)
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<AnswerChunk> {
    if (this.#parts.isStanding) yield this.#opening()
    if (this.#isUnrecorded) return
    const { body } = this.#parts
    let isRead = false
    try {
      for await (const piece of body instanceof Uint8Array ? [body] : body) {
        for (const block of this.#splitter.push(piece)) {
          yield block.isEvent ? await this.#event(block.bytes) : block
        }
      }
      isRead = true
    } catch (fault) {
      isRead = true
      const outcome = failureOf(fault)
      // A client may resume an answer that was only interrupted.
      if (isRefusal(fault) && !interruptions.has(fault.code)) this.#parts.withhold()
      // A stream of notifications can only be interrupted; a call that waits gets an error.
      if (!this.#isOpen) throw new Refusal(outcome.code, outcome.message, { cause: fault })
      yield this.#inPlace(outcome)
      return
    } finally {
      // The reader stopped before the end.
      if (!isRead && this.#isOpen) this.#parts.withhold()
    }
    if (this.#isOpen) yield this.#unanswered()
  }

  get #isOpen(): boolean {
    return !this.#parts.isStanding && !this.#isAnswered
  }

  #opening(): AnswerChunk {
    const instead = (outcome: Failed): Uint8Array => {
      this.#isUnrecorded = true
      return eventOf(this.#parts.encodeError(outcome))
    }
    return { bytes: new Uint8Array(), answer: { digest: null, instead } }
  }

  async #event(bytes: Uint8Array): Promise<AnswerChunk> {
    const event = read(bytes)
    if (event.id !== null && event.id !== '') this.#isResumable = true
    const message = messageIn(event)
    if (message === undefined) return { bytes }
    const isAmbiguous = hasDuplicateMembers(event.data, message)
    const { id, isStanding, review } = this.#parts
    if (!isResponse(message)) {
      const shown = await review.message(message)
      if (shown === undefined) return { bytes: new Uint8Array() }
      return { bytes: isAmbiguous || shown !== message ? withData(bytes, JSON.stringify(shown)) : bytes }
    }
    const isReplay = id === undefined
    if (!isReplay) checkResponse(message, id)
    if (this.#isAnswered) throw new ProtocolViolation('The upstream answered twice.')
    const other = isReplay ? this.#parts.replacementFor(message) : undefined
    if (other !== undefined) return { bytes: withData(bytes, other) }
    const reviewed = await review.response(message)
    const isSame = reviewed === message && !isAmbiguous
    const content = isSame ? event.data : JSON.stringify(reviewed)
    const shown = isSame ? bytes : withData(bytes, content)
    if (isStanding) return { bytes: shown }
    const { digest, error } = verdictOf(reviewed)
    this.#isAnswered = true
    const instead = (outcome: Failed): Uint8Array => {
      this.#parts.withhold()
      return withData(bytes, this.#parts.encodeError(outcome))
    }
    return { bytes: shown, answer: { digest, ...(error === undefined ? {} : { error }), content, instead } }
  }

  /** The last chunk of a stream that ends without its response. */
  #unanswered(): AnswerChunk {
    const isCancelled = this.#parts.isCancelled()
    const code = isCancelled ? 'CANCELLED' : 'UPSTREAM_UNREACHABLE'
    const outcome = failed(code, 'The upstream ended its stream without an answer.', { sent: 'yes' })
    if (!isCancelled && !this.#isResumable) return this.#inPlace(outcome)
    // 2025-11-25: a server may close a stream that the client then resumes. An error from here would end the request.
    const instead = (unrecorded: Failed): Uint8Array => eventOf(this.#parts.encodeError(unrecorded))
    return { bytes: new Uint8Array(), answer: { digest: null, error: outcome.code, instead } }
  }

  #inPlace(outcome: Failed): AnswerChunk {
    this.#isAnswered = true
    const instead = (unrecorded: Failed): Uint8Array => eventOf(this.#parts.encodeError(unrecorded))
    const bytes = eventOf(this.#parts.encodeError(outcome))
    return { bytes, answer: { digest: null, error: outcome.code, instead } }
  }
}

const interruptions: ReadonlySet<string> = new Set(['UPSTREAM_UNREACHABLE', 'DRAINING', 'CANCELLED'])

function read(bytes: Uint8Array): SseEvent {
  try {
    return readEvent(bytes)
  } catch (cause) {
    throw new ProtocolViolation('The upstream sent an event that is not UTF-8.', { cause })
  }
}

/** Only events of type `message` must hold a message; clients ignore other types. */
function messageIn(event: SseEvent): Fields | undefined {
  if (event.data === '') return undefined
  try {
    return readServerMessage(event.data)
  } catch (fault) {
    if (fault instanceof ProtocolViolation && event.type !== 'message') return undefined
    throw fault
  }
}

/** The outcome of an error after the answer's head. Rethrows internal errors. */
export function failureOf(fault: unknown): Failed {
  const sent: Outcome['sent'] = 'yes'
  if (isRefusal(fault)) return failed(fault.code, fault.message, { sent, cause: fault.cause })
  if (fault instanceof SseOverflow) {
    return failed('UPSTREAM_UNREACHABLE', `The upstream broke the protocol: ${fault.message}.`, { sent })
  }
  if (fault instanceof ProtocolViolation || isUpstreamError(fault)) {
    return failed('UPSTREAM_UNREACHABLE', fault.message, { sent, cause: fault.cause ?? fault })
  }
  throw fault
}
