// A stream that a request opens for as long as the client wants it (GET, `subscriptions/listen`): the call is recorded
// when it opens. A GET that resumes the stream of another request carries that request's response.
import { type AnswerChunk, type AnswerStream, type Failed, Refusal } from '@svc/core'
import { eventOf } from '@svc/core/http'
import type { UpstreamAnswer } from '../upstream/answer.js'
import type { LateResponses } from './late-responses.js'
import type { RequestId } from './message.js'
import type { ResponseFilter } from './response-filter.js'
import { checkResponse, isResponse } from './rpc-response.js'
import { eventShowing, failureOf, hasMessage, type ReceivedBlock, receivedBlocks } from './stream-events.js'

export interface StandingStreamParts {
  readonly body: UpstreamAnswer['body']
  /** Of the request that opened the stream; undefined on a GET. */
  readonly id: RequestId | undefined
  readonly maxEventBytes: number
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
    const { body, maxEventBytes } = this.#parts
    try {
      for await (const block of receivedBlocks(body, maxEventBytes)) yield await this.#passed(block)
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

  async #passed(block: ReceivedBlock): Promise<AnswerChunk> {
    if (!hasMessage(block)) return block
    const { id, review, lateResponses } = this.#parts
    const { message } = block
    if (!isResponse(message)) {
      const shown = await review.message(message)
      return { bytes: shown === undefined ? new Uint8Array() : eventShowing(block, shown) }
    }
    if (id === undefined) return lateResponses.chunkOf(block)
    checkResponse(message, id)
    return { bytes: eventShowing(block, await review.response(message)) }
  }
}
