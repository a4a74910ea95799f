// Limits the size of answers: of whole ones before they are sent, of streamed ones during the stream.
import {
  type AnswerChunk,
  type AnswerStream,
  type Call,
  type Completed,
  type Finding,
  isStream,
  type RequestKind,
} from '@svc/core'
import { lateFinding } from './findings.js'

/** The response, which the pipeline withholds from the finding on where that denies. */
export function limitAnswerSize(
  call: Call,
  kind: RequestKind,
  answer: Completed,
  maxBytes: number,
): Completed {
  const { body } = answer
  if (isStream(body)) {
    // With a content-length over the limit, the stream need not start.
    if (!(Number(answer.headers['content-length']) > maxBytes))
      return { ...answer, body: limitStream(call, kind, body, maxBytes) }
  } else if (body.byteLength <= maxBytes) return answer
  call.addFinding(tooLarge(maxBytes))
  return answer
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
      call.addFinding(tooLarge(maxBytes))
    }
    yield chunk
  }
}

function tooLarge(maxBytes: number): Finding {
  return lateFinding('payload_too_large', `the answer has more than ${maxBytes} bytes`)
}
