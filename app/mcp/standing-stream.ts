// A stream that a request opens for as long as the client wants it (GET, `subscriptions/listen`): the call is recorded
// when it opens. A GET that resumes the stream of another request carries that request's response.
import { type AnswerChunk, type AnswerStream, type Failed, Refusal } from '@svc/core'
import { eventOf } from '@svc/core/http'
import { passed } from './answer-stream.js'
import type { LateResponses } from './late-responses.js'
import type { RequestId } from './message.js'
import type { ResponseFilter } from './response-filter.js'
import { checkResponse, failureOf, isResponse } from './rpc-response.js'
import { hasMessage, type McpEvent } from './servers.js'
import { showEvent } from './shown-messages.js'

export interface StandingStreamParts {
  readonly events: AsyncIterable<McpEvent>
  /** Of the request that opened the stream; undefined on a GET. */
  readonly id: RequestId | undefined
  readonly review: ResponseFilter
  readonly lateResponses: LateResponses
  encodeError(outcome: Failed): string
}

export class StandingStream implements AnswerStream {
  #parts: StandingStreamParts
  #isUnrecorded = false

  constructor(parts: StandingStreamParts) {
    this.#parts = parts
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<AnswerChunk> {
    yield this.#opening()
    if (this.#isUnrecorded) return
    try {
      for await (const event of this.#parts.events) yield await this.#passed(event)
    } catch (fault) {
      const { code, message } = failureOf(fault)
      throw new Refusal(code, message, { cause: fault })
    }
  }

  #opening(): AnswerChunk {
    const instead = (outcome: Failed): Uint8Array => {
      this.#isUnrecorded = true
      return eventOf(this.#parts.encodeError(outcome))
    }
    return { bytes: new Uint8Array(), answer: { digest: null, instead } }
  }

  async #passed(event: McpEvent): Promise<AnswerChunk> {
    const { id, review, lateResponses } = this.#parts
    if (!hasMessage(event) || !isResponse(event.message)) return passed(event, review)
    if (id === undefined) return lateResponses.chunkOf(event)
    checkResponse(event.message, id)
    return { bytes: showEvent(event, await review.response(event.message)).bytes }
  }
}
