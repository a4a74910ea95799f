// A streamed response to a request: events are passed on as they come. The event that holds the response is marked, so
// that the pipeline sends it only after the call is recorded.
import { type Failed, failed, Refusal, type ResponseChunk, type ResponseStream } from '@svc/core'
import { eventOf } from '@svc/core/http'
import type { RequestId } from './protocol.js'
import type { ResponseFilter } from './response-filter.js'
import { failureOf, isInterruption, isResponse, ProtocolViolation, recordedResult } from './rpc-response.js'
import {
  eventBytes,
  hasMessage,
  type McpEvent,
  type ReceivedMessage,
  responseTo,
  showEvent,
} from './servers.js'

/** Keeps the state by which a client can resume the stream of a call. */
export interface Resumption {
  /** Called before the first event with an id is passed on; false if the client cannot resume the stream. */
  begin(): Promise<boolean>
  /** The response is on the stream. Never rejects. */
  completed(): Promise<void>
  /** The response must not be delivered on any stream. Never rejects. */
  withhold(): Promise<void>
}

export interface ResponseStreamOptions {
  readonly events: AsyncIterable<McpEvent>
  readonly id: RequestId
  /** The id by which the client gets the response. */
  readonly clientId: RequestId
  /** Whether the upstream works on when the caller disconnects, so that the outcome must be read. */
  readonly drainWhenAbandoned: boolean
  readonly filter: ResponseFilter
  readonly resumption: Resumption
  /** Whether the client has cancelled the request, which then needs no response. */
  isCancelled(): boolean
  /** A JSON-RPC error in place of the response. */
  encodeError(outcome: Failed): string
}

export class McpResponseStream implements ResponseStream {
  readonly drainWhenAbandoned: boolean
  #options: ResponseStreamOptions
  /** Undefined before the first event with an id. */
  #isResumable: boolean | undefined
  #isCompleted = false

  constructor(options: ResponseStreamOptions) {
    this.drainWhenAbandoned = options.drainWhenAbandoned
    this.#options = options
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ResponseChunk> {
    const { events, resumption } = this.#options
    let isRead = false
    try {
      for await (const event of events) yield await this.#passedEvent(event)
      isRead = true
    } catch (error) {
      isRead = true
      if (this.#isCompleted) {
        const { code, message } = failureOf(error)
        throw new Refusal(code, message, { cause: error })
      }
      yield await this.#broken(error)
      return
    } finally {
      // The reader stopped before the end.
      if (!isRead && !this.#isCompleted) await resumption.withhold()
    }
    if (!this.#isCompleted) yield this.#withoutResponse()
  }

  async #passedEvent(event: McpEvent): Promise<ResponseChunk> {
    const { id = null } = event
    if (id !== null && id !== '') this.#isResumable ??= await this.#options.resumption.begin()
    if (hasMessage(event) && isResponse(event.message)) return this.#response(event)
    return passedEvent(event, this.#options.filter)
  }

  async #response(received: McpEvent & ReceivedMessage): Promise<ResponseChunk> {
    const { id, clientId, filter, resumption, encodeError } = this.#options
    const event = responseTo(received, id, clientId)
    if (this.#isCompleted) throw new ProtocolViolation('The upstream responded twice.')
    const filtered = await filter.response(event.message, event.text)
    const { bytes, text: content } = showEvent(event, filtered)
    const recorded = await recordedResult(filtered, content)
    this.#isCompleted = true
    resumption.completed()
    const instead = (outcome: Failed): Uint8Array => {
      resumption.withhold()
      return eventBytes(event, encodeError(outcome))
    }
    return { bytes, response: { ...recorded, content, instead } }
  }

  /** The last chunk of a stream that broke off before the response. */
  async #broken(error: unknown): Promise<ResponseChunk> {
    const { isCancelled, resumption } = this.#options
    if (isInterruption(error)) {
      if (this.#isResumable === true && !isCancelled()) return this.#silent(unknownOutcome)
      return this.#inPlace(failureOf(error))
    }
    await resumption.withhold()
    return this.#inPlace(failureOf(error))
  }

  /** The last chunk of a stream that ended without the response. */
  #withoutResponse(): ResponseChunk {
    const message = 'The upstream ended its stream without a response.'
    if (this.#options.isCancelled()) return this.#silent(failed('CANCELLED', message))
    if (this.#isResumable === true) return this.#silent(unknownOutcome)
    return this.#inPlace(failed('UPSTREAM_UNREACHABLE', message))
  }

  /** Sends no error, which would end a request that the client may resume (2025-11-25, "Resumability and Redelivery"). */
  #silent({ code }: Failed): ResponseChunk {
    return { bytes: new Uint8Array(), response: { digest: null, error: code, instead: this.#event } }
  }

  #inPlace(outcome: Failed): ResponseChunk {
    this.#isCompleted = true
    return {
      bytes: this.#event(outcome),
      response: { digest: null, error: outcome.code, instead: this.#event },
    }
  }

  #event = (outcome: Failed): Uint8Array => eventOf(this.#options.encodeError(outcome))
}

/** The chunk for an event that is not a response, with its message filtered. */
export async function passedEvent(event: McpEvent, filter: ResponseFilter): Promise<ResponseChunk> {
  if (!hasMessage(event)) return { bytes: event.frame ?? new Uint8Array() }
  const shown = await filter.message(event.message)
  return { bytes: shown === undefined ? new Uint8Array() : showEvent(event, shown).bytes }
}

const unknownOutcome = failed('OUTCOME_UNKNOWN', 'The stream broke off before the response.')
