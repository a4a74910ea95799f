// The messages that clients get, by their bytes: a client of messages, such as one over stdio, gets the message that was
// judged without another parse. If a stage changes a response, the new bytes are parsed.
import { readEvent, withData } from '@svc/core/http'
import { isTooCostly, parseJsonObject } from '@svc/core/json'
import { keepShown, shownIn } from '@svc/core/response'
import type { Fields } from './rpc-response.js'
import { eventBytes, type McpEvent, type ReceivedMessage, textShowing } from './servers.js'

interface ShownEvent extends Partial<ReceivedMessage> {
  /** The id after which a client may resume the stream. */
  readonly id?: string | null | undefined
}

const COLON = 0x3a

/** The event with `message` in place of its own. */
export function showEvent(
  event: McpEvent & ReceivedMessage,
  message: Fields,
): { readonly bytes: Uint8Array; readonly text: string } {
  const text = textShowing(event, message)
  const bytes = eventBytes(event, text)
  keepShown(bytes, { message, text, id: event.id })
  return { bytes, text }
}

/** The body of a response with `message` in place of its own. */
export function showMessage(
  received: ReceivedMessage & { readonly bytes: Uint8Array },
  message: Fields,
): { readonly bytes: Uint8Array; readonly text: string } {
  const text = textShowing(received, message)
  const bytes = text === received.text ? received.bytes : Buffer.from(text)
  keepShown(bytes, { message, text })
  return { bytes, text }
}

/** The bytes of an event with `message` in place of its own. */
export function replaceMessage(event: Uint8Array, message: Fields): Uint8Array {
  const text = JSON.stringify(message)
  const bytes = withData(event, text)
  keepShown(bytes, { message, text, id: shownEvent(event).id })
  return bytes
}

/** The message and the id of an event, if it has them. Throws `TypeError` for bytes that are not UTF-8. */
export function shownEvent(bytes: Uint8Array): ShownEvent {
  const known = shownIn(bytes)
  if (known !== undefined) return known
  // A comment need not be UTF-8.
  if (bytes.byteLength === 0 || bytes[0] === COLON) return {}
  const { data, id } = readEvent(bytes)
  return { id, ...received(data) }
}

/** The message of a whole response; undefined for another body. */
export function shownMessage(body: string | Uint8Array): ReceivedMessage | undefined {
  const known = typeof body === 'string' ? undefined : shownIn(body)
  if (known !== undefined) return known
  return received(shownText(body))
}

/** The text of a whole response. */
export function shownText(body: string | Uint8Array): string {
  return typeof body === 'string' ? body : (shownIn(body)?.text ?? Buffer.from(body).toString())
}

/** Undefined for text that is not a message or costs too much to read. */
function received(text: string): ReceivedMessage | undefined {
  const message = text === '' || isTooCostly(text) ? undefined : parseJsonObject(text)
  return message && { message, text }
}
