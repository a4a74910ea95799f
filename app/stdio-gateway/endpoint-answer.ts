// Reads the messages in an answer of an MCP endpoint, each as one line of text.
import type { IncomingMessage } from 'node:http'
import { readEvent, SseSplitter } from '@svc/core/http'
import { isJsonObject, parseJsonObject } from '@svc/core/json'
import { EVENT_STREAM_TYPE, mediaType } from '../http/media-type.js'

export interface AnswerMessage {
  /** Empty for an event that only says where the stream continues. */
  readonly text: string
  /** Where a broken stream continues after this message. */
  readonly eventId: string | undefined
}

/** The messages of an answer in either form. */
export async function* messagesOf(answer: IncomingMessage): AsyncGenerator<AnswerMessage> {
  if (mediaType(answer.headers['content-type']) === EVENT_STREAM_TYPE) return yield* eventMessages(answer)
  const text = await bodyText(answer)
  if (text !== '') yield { text, eventId: undefined }
}

export async function bodyText(answer: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = []
  for await (const piece of answer) pieces.push(piece)
  return asLine(Buffer.concat(pieces).toString())
}

/** The messages of an event stream, as they come. */
async function* eventMessages(answer: IncomingMessage): AsyncGenerator<AnswerMessage> {
  // The gateway has limited the size of each event.
  const splitter = new SseSplitter(Number.POSITIVE_INFINITY)
  for await (const piece of answer) {
    for (const block of splitter.push(piece)) {
      if (!block.isEvent) continue
      const { data, id } = readEvent(block.bytes)
      yield { text: asLine(data), eventId: id ?? undefined }
    }
  }
}

/** Undefined where the message is no response with a result. */
export function resultIn(text: string): Readonly<Record<string, unknown>> | undefined {
  const result = parseJsonObject(text)?.['result']
  return isJsonObject(result) ? result : undefined
}

export function isResponseTo(text: string, id: unknown): boolean {
  const message = parseJsonObject(text)
  return message !== undefined && message['id'] === id && !('method' in message)
}

/** JSON has line ends between its tokens only. */
function asLine(json: string): string {
  return json.replace(/[\r\n]+/g, ' ').trim()
}
