// A stream of notifications, which the client keeps open (GET, `subscriptions/listen`): the call is recorded when the stream
// opens. A GET that resumes the stream of another request carries that request's response.
import { type Failed, Refusal, type ResponseChunk, type ResponseStream } from '@svc/core'
import { eventOf } from '@svc/core/http'
import type { RequestId } from './protocol.js'
import type { ResponseFilter } from './response-filter.js'
import { passedEvent } from './response-stream.js'
import type { ResumedResponses } from './resumed-responses.js'
import { failureOf, isResponse } from './rpc-response.js'
import { hasMessage, type McpEvent, responseTo } from './servers.js'
import { showEvent } from './shown-messages.js'

interface NotificationStreamParts {
  readonly events: AsyncIterable<McpEvent>
  /** The id of the request that opened the stream; undefined on a GET. */
  readonly id: RequestId | undefined
  readonly filter: ResponseFilter
  readonly resumedResponses: ResumedResponses
  encodeError(outcome: Failed): string
}

export function notificationStream(parts: NotificationStreamParts): ResponseStream {
  return { [Symbol.asyncIterator]: () => chunksOf(parts) }
}

async function* chunksOf(parts: NotificationStreamParts): AsyncGenerator<ResponseChunk> {
  let isUnrecorded = false
  const instead = (outcome: Failed): Uint8Array => {
    isUnrecorded = true
    return eventOf(parts.encodeError(outcome))
  }
  yield { bytes: new Uint8Array(), response: { digest: null, instead } }
  if (isUnrecorded) return
  try {
    for await (const event of parts.events) yield await passEvent(event, parts)
  } catch (error) {
    const { code, message } = failureOf(error)
    throw new Refusal(code, message, { cause: error })
  }
}

async function passEvent(
  event: McpEvent,
  { id, filter, resumedResponses }: NotificationStreamParts,
): Promise<ResponseChunk> {
  if (!hasMessage(event) || !isResponse(event.message)) return passedEvent(event, filter)
  if (id === undefined) return resumedResponses.chunkOf(event)
  const response = responseTo(event, id)
  return { bytes: showEvent(response, await filter.response(response.message, response.text)).bytes }
}
