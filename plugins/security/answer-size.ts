// Limits the size of answers: of whole ones before they are sent, of streamed ones during the stream.
import {
  type AnswerChunk,
  type AnswerStream,
  type Call,
  type Completed,
  failed,
  isStream,
  type Outcome,
  Refusal,
  type RequestKind,
} from '@svc/core'
import { type LateFinding, lateFinding, refusal, verdictOn } from './findings.js'

export function limitAnswerSize(call: Call, kind: RequestKind, answer: Completed, maxBytes: number): Outcome {
  const { body } = answer
  if (!isStream(body)) {
    const over = body.byteLength > maxBytes ? tooLarge(call, maxBytes) : undefined
    return over === undefined ? answer : refusal(over)
  }
  // With a content-length over the limit, the stream need not start.
  if (Number(answer.headers['content-length']) > maxBytes) {
    const over = tooLarge(call, maxBytes)
    if (over === undefined) return answer
    call.abort(over.code, over.message)
    return refusal(over)
  }
  return { ...answer, body: limitStream(call, kind, body, maxBytes) }
}

function limitStream(call: Call, kind: RequestKind, body: AnswerStream, maxBytes: number): AnswerStream {
  return {
    ...(body.drainWhenAbandoned === undefined ? {} : { drainWhenAbandoned: body.drainWhenAbandoned }),
    [Symbol.asyncIterator]: () => limited(call, kind, body, maxBytes),
  }
}

async function* limited(
  call: Call,
  kind: RequestKind,
  body: AnswerStream,
  maxBytes: number,
): AsyncGenerator<AnswerChunk> {
  let bytes = 0
  let isReported = false
  for await (const chunk of body) {
    // An MCP session's stream of notifications has no end, so the limit applies to each chunk.
    bytes = (kind === 'protocol' ? 0 : bytes) + chunk.bytes.byteLength
    if (bytes > maxBytes && !isReported) {
      isReported = true
      const over = tooLarge(call, maxBytes)
      if (over !== undefined) {
        yield* terminate(chunk, over)
        return
      }
    }
    yield chunk
  }
}

/** Ends with an error message where the protocol has one; else throws, so that the answer does not look complete. */
function* terminate({ answer }: AnswerChunk, { code, message }: LateFinding): Generator<AnswerChunk> {
  if (answer === undefined) throw new Refusal(code, message)
  const bytes = answer.instead(failed(code, message))
  const { content: _, ...others } = answer
  yield {
    bytes,
    answer: { ...others, digest: null, error: code, instead: (failure) => answer.instead(failure) },
  }
}

/** Adds the finding; returns it unless the verdict lets it pass. Without a verdict the answer is refused. */
function tooLarge(call: Call, maxBytes: number): LateFinding | undefined {
  const late = lateFinding(
    'PAYLOAD_TOO_LARGE',
    'payload_too_large',
    `the answer has more than ${maxBytes} bytes`,
  )
  call.addFinding(late.finding)
  return verdictOn(call, late.finding) === 'pass' ? undefined : late
}
