// Reads the one response in an MCP server's answer, for requests of the gateway itself.
import { isRefusal } from '@svc/core'
import { readEvent, SseOverflow, SseSplitter } from '@svc/core/http'
import { MAX_COST } from '@svc/core/json'
import { EVENT_STREAM_TYPE, mediaType } from '../http/media-type.js'
import type { UpstreamAnswer } from '../upstream/answer.js'
import { limitBody } from '../upstream/response-limit.js'
import { readWholeBody } from './body.js'
import { type Fields, isResponse, ProtocolViolation, readServerMessage, readText } from './rpc-response.js'

/** Whether a fault of `responseIn` says that the server's answer is outside the protocol, or too large. */
export function isUnreadable(fault: unknown): fault is Error {
  if (fault instanceof ProtocolViolation || fault instanceof SseOverflow) return true
  return isRefusal(fault) && fault.code === 'PAYLOAD_TOO_LARGE'
}

/** Undefined where there is none. Rejects with what `isUnreadable` says, or with `UpstreamError`. */
export async function responseIn(answer: UpstreamAnswer, maxBytes: number): Promise<Fields | undefined> {
  const type = mediaType(answer.headers['content-type'])
  if (type === EVENT_STREAM_TYPE) return firstResponse(limitBody(answer.body, maxBytes))
  if (type !== 'application/json') return undefined
  return readServerMessage(readText(await readWholeBody(answer.body, maxBytes)))
}

async function firstResponse(body: UpstreamAnswer['body']): Promise<Fields | undefined> {
  const splitter = new SseSplitter(MAX_COST)
  for await (const piece of body instanceof Uint8Array ? [body] : body) {
    for (const block of splitter.push(piece)) {
      const data = block.isEvent ? readEvent(block.bytes).data : ''
      const message = data === '' ? undefined : readServerMessage(data)
      if (message !== undefined && isResponse(message)) return message
    }
  }
  return undefined
}
