// How large an answer may be: a whole one before it leaves, a streamed one while it flows.
import {
  type AnswerChunk,
  type AnswerStream,
  type Call,
  type Completed,
  type Denied,
  denied,
  failed,
  isStream,
  type Outcome,
  Refusal,
  type RequestKind,
  type Sent,
} from '@svc/core'
import { effectOn, type LateFinding, lateFinding } from './findings.js'

/** `maxBytes` is the most that passes. */
export function limitAnswer(call: Call, kind: RequestKind, answer: Completed, maxBytes: number): Outcome {
  const { body, sent } = answer
  if (!isStream(body)) {
    const over = body.byteLength > maxBytes ? tooLarge(call, maxBytes) : undefined
    return over === undefined ? answer : withheld(over, sent)
  }
  // One that says beforehand how long it is need not begin to flow.
  if (Number(answer.headers['content-length']) > maxBytes) {
    const over = tooLarge(call, maxBytes)
    if (over === undefined) return answer
    call.abort(over.code, over.message)
    return withheld(over, sent)
  }
  return { ...answer, body: limitStream(call, kind, body, maxBytes) }
}

function withheld({ code, message, denial }: LateFinding, sent: Sent): Denied {
  return denied(code, message, { sent, denial })
}

function limitStream(call: Call, kind: RequestKind, body: AnswerStream, maxBytes: number): AnswerStream {
  return {
    ...(body.drainWhenAbandoned === undefined ? {} : { drainWhenAbandoned: body.drainWhenAbandoned }),
    [Symbol.asyncIterator]: () => flow(call, kind, body, maxBytes),
  }
}

async function* flow(
  call: Call,
  kind: RequestKind,
  body: AnswerStream,
  maxBytes: number,
): AsyncGenerator<AnswerChunk> {
  let bytes = 0
  let isFound = false
  for await (const chunk of body) {
    // A session's stream of notifications is no one answer and has no end: each of its pieces counts by itself.
    bytes = (kind === 'protocol' ? 0 : bytes) + chunk.bytes.byteLength
    if (bytes > maxBytes && !isFound) {
      isFound = true
      const over = tooLarge(call, maxBytes)
      if (over !== undefined) {
        yield* brokenOff(chunk, over)
        return
      }
    }
    yield chunk
  }
}

/** An answer that has a form for errors ends with one; any other must not end as if it were whole. */
function* brokenOff({ answer }: AnswerChunk, { code, message }: LateFinding): Generator<AnswerChunk> {
  if (answer === undefined) throw new Refusal(code, message)
  const bytes = answer.instead(failed(code, message, { sent: 'yes' }))
  yield { bytes, answer: { digest: null, error: code, instead: (failure) => answer.instead(failure) } }
}

/** Reports the finding; returns it when it denies. An answer that nobody judges stays here. */
function tooLarge(call: Call, maxBytes: number): LateFinding | undefined {
  const late = lateFinding(
    'PAYLOAD_TOO_LARGE',
    'payload_too_large',
    `the answer has more than ${maxBytes} bytes`,
  )
  call.addFinding(late.finding)
  return effectOn(call, late.finding) === 'passes' ? undefined : late
}
