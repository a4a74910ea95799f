// Redacts an answer of the MCP endpoint. On a stream the event with the response goes on, redacted; progress, logs and
// questions of the server may tell what the response will, and are withheld.
import { type AnswerChunk, type AnswerStream, type CallRequest, type Completed, failed } from '@svc/core'
import { eventOf, readEvent, SseSplitter } from '@svc/core/http'
import { redactResponse } from './message.js'
import type { OutputRule } from './rule.js'

/** Larger than any event that the MCP endpoint lets through. */
const maxEventBytes = 256 * 1024 * 1024

/** A comment keeps the connection alive in place of what is withheld. */
const comment = Buffer.from(': withheld\n\n')

export function redactMcpBody(
  answer: Completed,
  body: Uint8Array,
  request: CallRequest,
  rules: readonly OutputRule[],
): Completed {
  // Nothing tells nothing.
  if (body.byteLength === 0) return answer
  const shown = redactResponse(Buffer.from(body).toString('utf8'), request, rules)
  if (shown === undefined) return { ...answer, body: new Uint8Array(), digest: null }
  const error = answer.error ?? shown.error
  return {
    ...answer,
    body: Buffer.from(shown.text),
    digest: answer.status >= 400 ? null : shown.digest,
    ...(error === undefined ? {} : { error }),
  }
}

export class McpEvents implements AnswerStream {
  readonly drainWhenAbandoned: boolean
  #body: AnswerStream
  #request: CallRequest
  #rules: readonly OutputRule[]
  #splitter = new SseSplitter(maxEventBytes)

  constructor(body: AnswerStream, request: CallRequest, rules: readonly OutputRule[]) {
    this.drainWhenAbandoned = body.drainWhenAbandoned === true
    this.#body = body
    this.#request = request
    this.#rules = rules
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<AnswerChunk> {
    for await (const chunk of this.#body) {
      if (chunk.answer !== undefined) yield this.#answer(chunk.bytes, chunk.answer)
      else for (const { bytes } of this.#splitter.push(chunk.bytes)) yield { bytes: this.#event(bytes) }
    }
  }

  #answer(bytes: Uint8Array, answer: NonNullable<AnswerChunk['answer']>): AnswerChunk {
    const shown = this.#response(bytes)
    if (shown !== undefined) {
      // Whoever keeps the answer keeps what the caller saw.
      const content = shown.text
      return { bytes: eventOf(content), answer: { ...answer, digest: shown.digest, content } }
    }
    // The stream ended early, and a client that knows no event's id cannot come back for the rest.
    const outcome = failed('UPSTREAM_UNREACHABLE', 'The upstream ended its stream without an answer.', {
      sent: 'yes',
    })
    return { bytes: answer.instead(outcome), answer: { ...answer, digest: null } }
  }

  #event(bytes: Uint8Array): Uint8Array {
    const shown = this.#response(bytes)
    return shown === undefined ? comment : eventOf(shown.text)
  }

  /** Written anew without its id: by that, a client could fetch the stream again, past this redaction. */
  #response(bytes: Uint8Array): ReturnType<typeof redactResponse> {
    const { data } = readEvent(bytes)
    return data === '' ? undefined : redactResponse(data, this.#request, this.#rules)
  }
}
