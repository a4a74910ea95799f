// Reads the one response in an MCP server's answer, for requests of the gateway itself.
import { readEvent, SseSplitter } from '@svc/core/http'
import { EVENT_STREAM_TYPE, mediaType } from '../http/media-type.js'
import type { UpstreamAnswer } from '../upstream/answer.js'
import { readWholeBody } from './body.js'
import { type Fields, isResponse, readServerMessage, readText } from './rpc-response.js'

/** Undefined where there is none. Rejects with `ProtocolViolation`, `SseOverflow` or `UpstreamError`. */
export async function responseIn(answer: UpstreamAnswer, maxBytes: number): Promise<Fields | undefined> {
  const type = mediaType(answer.headers['content-type'])
  if (type === EVENT_STREAM_TYPE) return firstResponse(answer.body, maxBytes)
  if (type !== 'application/json') return undefined
  return readServerMessage(readText(await readWholeBody(answer.body, maxBytes)))
}

async function firstResponse(body: UpstreamAnswer['body'], maxBytes: number): Promise<Fields | undefined> {
  const splitter = new SseSplitter(maxBytes)
  for await (const piece of body instanceof Uint8Array ? [body] : body) {
    for (const block of splitter.push(piece)) {
      const data = block.isEvent ? readEvent(block.bytes).data : ''
      const message = data === '' ? undefined : readServerMessage(data)
      if (message !== undefined && isResponse(message)) return message
    }
  }
  return undefined
}
