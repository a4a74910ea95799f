// Limits the size of responses: of whole responses before they are sent, of streamed ones during the stream.
import {
  type Call,
  type Completed,
  type Finding,
  isStream,
  type RequestKind,
  type ResponseChunk,
  type ResponseStream,
} from '@svc/core'
import { lateFinding } from './findings.js'

/** The response; from a denying finding on, the pipeline withholds it. */
export function limitResponseSize(
  call: Call,
  kind: RequestKind,
  response: Completed,
  maxBytes: number,
): Completed {
  const { body } = response
  if (isStream(body)) {
    // With a content-length over the limit, the stream need not start.
    if (!(Number(response.headers['content-length']) > maxBytes))
      return { ...response, body: limitStream(call, kind, body, maxBytes) }
  } else if (body.byteLength <= maxBytes) return response
  call.addFinding(tooLarge(maxBytes))
  return response
}

function limitStream(call: Call, kind: RequestKind, body: ResponseStream, maxBytes: number): ResponseStream {
  return {
    ...(body.drainWhenAbandoned === undefined ? {} : { drainWhenAbandoned: body.drainWhenAbandoned }),
    [Symbol.asyncIterator]: () => limited(call, kind, body, maxBytes),
  }
}

async function* limited(
  call: Call,
  kind: RequestKind,
  body: ResponseStream,
  maxBytes: number,
): AsyncGenerator<ResponseChunk> {
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
  return lateFinding('payload_too_large', `the response has more than ${maxBytes} bytes`)
}
