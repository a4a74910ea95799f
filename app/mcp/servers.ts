// The port towards MCP servers: messages that are parsed once, each with its exact text. Servers over HTTP, processes over
// stdio and a server in this process implement it, so that callers work on messages and do not depend on the transport.
import type { ResponseHeaders } from '@svc/core'
import { eventOf, readEvent, withData } from '@svc/core/http'
import {
  hasDuplicateMembers,
  isTooCostly,
  type JsonObject,
  MAX_COST,
  parseExactObject,
  stringifyJson,
} from '@svc/core/json'
import { keepShown, shownIn } from '@svc/core/response'
import { isMessageType, JSON_TYPE } from '../http/media-type.js'
import { discard } from '../upstream/discard.js'
import type { Discardable, UpstreamRequest, UpstreamResponse } from '../upstream/response.js'
import { wholeBody } from '../upstream/response-limits.js'
import type { RequestId } from './protocol.js'
import { changeForClients, checkServerMessage, decodeUtf8, type Fields, readInTurns } from './rpc-response.js'

/** A message to a server (POST), or a request for a stream of notifications (GET) or for the end of a session (DELETE). */
export interface McpRequest extends Omit<UpstreamRequest, 'path' | 'body'> {
  /** The message of a POST. */
  readonly message?: JsonObject | undefined
  /** The JSON of `message`, if it is written already. */
  readonly text?: string | undefined
  readonly inputFor?: InputReceivers | undefined
  /** Whether the tool that it calls may run twice; asked if the connection was lost. */
  readonly mayRunTwice?: (() => boolean) | undefined
}

/**
 * Set for a handshake whose sender translates itself what the server asks clients of the other era: in the session is one
 * client, or several of one identity.
 */
export type InputReceivers = 'one' | 'several'

/** A message of a server, and the text that it was parsed from. */
export interface ReceivedMessage {
  readonly message: Fields
  readonly text: string
}

/** An event of a stream; a comment, for example, has a frame and no message. */
export interface McpEvent extends Partial<ReceivedMessage> {
  /** The bytes that came over HTTP; undefined for other transports. */
  readonly frame?: Uint8Array
  /** The id after which a client may resume the stream. */
  readonly id?: string | null
}

export interface StreamLimits {
  /** Size of all events together. */
  readonly maxBytes?: number
  readonly maxEventBytes?: number
}

interface ResponseHead extends Discardable {
  readonly status: number
  /** Names in lower case. */
  readonly headers: ResponseHeaders
}

/** The iteration rejects with `ProtocolViolation`, `SseOverflow`, `Refusal`, `UpstreamError`, or the reason of the abort. */
export interface EventsResponse extends ResponseHead {
  readonly form: 'events'
  events(limits: StreamLimits): AsyncIterable<McpEvent>
}

export type McpResponse = WholeResponse | EventsResponse

export interface McpServers {
  /** Rejects as `UpstreamDispatcher.send` does. */
  send(target: URL, request: McpRequest, onSent: () => void): Promise<McpResponse>
  /** Whether the server is known to refuse 2026-07-28. A server over HTTP tells its clients itself. */
  isHandshakeAlone?(target: URL): boolean
}

/** A response that is not a stream. Its methods reject with `Refusal` (`PAYLOAD_TOO_LARGE`). */
export class WholeResponse implements ResponseHead {
  readonly status: number
  readonly headers: ResponseHeaders
  readonly form: 'message' | 'other'
  #body: UpstreamResponse['body']
  #received: ReceivedMessage | undefined

  /** `received` is the message in `body`, if it is parsed already. */
  constructor(
    status: number,
    headers: ResponseHeaders,
    body: UpstreamResponse['body'],
    received?: ReceivedMessage,
  ) {
    this.status = status
    this.headers = headers
    const isEmpty = body instanceof Uint8Array && body.byteLength === 0
    this.form = !isEmpty && isMessageType(headers['content-type']) ? 'message' : 'other'
    this.#body = body
    this.#received = received
  }

  /** Rejects with `ProtocolViolation` for anything but a message. */
  async message(maxBytes: number): Promise<ReceivedMessage & { readonly bytes: Uint8Array }> {
    const bytes = await this.bytes(Math.min(maxBytes, MAX_COST))
    const text = this.#received?.text ?? decodeUtf8(bytes)
    const message =
      this.#received === undefined ? await readInTurns(text) : checkServerMessage(this.#received.message)
    return { message, text, bytes: withoutByteOrderMark(bytes) }
  }

  async bytes(maxBytes: number): Promise<Uint8Array> {
    const bytes = await wholeBody(this.#body, maxBytes)
    this.#body = bytes
    return bytes
  }

  discard(): Promise<void> {
    return discard(this.#body)
  }
}

/** A response that holds `message`. */
export function messageResponse(
  { message, text = stringifyJson(message) }: { readonly message: Fields; readonly text?: string },
  status = 200,
  headers: ResponseHeaders = {},
): WholeResponse {
  const type = { 'content-type': JSON_TYPE }
  return new WholeResponse(status, { ...headers, ...type }, Buffer.from(text), { message, text })
}

/** The response to a message that needs none, or to the end of a session. */
export function noMessage(status: 202 | 204): WholeResponse {
  return new WholeResponse(status, {}, new Uint8Array())
}

export function hasMessage(event: McpEvent): event is McpEvent & ReceivedMessage {
  return event.message !== undefined
}

/** Some servers begin their JSON with it, and some clients cannot read that. */
function withoutByteOrderMark(bytes: Uint8Array): Uint8Array {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes
}

/** The response to `id` as every client reads it, by the id `shownId`. Throws `ProtocolViolation` for anything else. */
export function responseTo<R extends ReceivedMessage & { frame?: Uint8Array; bytes?: Uint8Array }>(
  received: R,
  id: RequestId,
  shownId = id,
): R {
  const change = changeForClients(received.message, id, shownId)
  if (change === undefined) return received
  const text = withMembers(received.text, change.members) ?? stringifyJson(change.message)
  const { frame, bytes } = received
  return {
    ...received,
    message: change.message,
    text,
    ...(frame === undefined ? {} : { frame: withData(frame, text) }),
    ...(bytes === undefined ? {} : { bytes: Buffer.from(text) }),
  }
}

/** The text as it came if `shown` is the message itself and every parser reads the text alike, else new JSON. */
export function textShowing({ message, text }: ReceivedMessage, shown: Fields): string {
  return shown === message && !hasDuplicateMembers(text, message) ? text : stringifyJson(shown)
}

/** The bytes of an event for a client over HTTP, with `text` as its message. */
export function eventBytes({ frame, text: received }: McpEvent, text: string): Uint8Array {
  if (frame === undefined) return eventOf(text)
  return text === received ? frame : withData(frame, text)
}

// Changes members of a message without touching the rest of its text: numbers that a double cannot represent, and the order
// and spelling of everything, stay as the server wrote them.

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a
const COMMA = 0x2c
const OPEN = new Set([0x7b, 0x5b])
const CLOSE = new Set([0x7d, 0x5d])

/**
 * `text` is a valid JSON object. By the name of a member its new JSON, or undefined if it goes. Undefined if a member
 * that stays is not there exactly once.
 */
export function withMembers(
  text: string,
  changes: Readonly<Record<string, string | undefined>>,
): string | undefined {
  const pieces: string[] = []
  const found = new Set<string>()
  let depth = 0
  let start = 0
  let colon = -1
  const add = (end: number): boolean => {
    const name = colon < 0 ? undefined : String(JSON.parse(text.slice(start, colon)))
    if (name === undefined || !Object.hasOwn(changes, name)) pieces.push(text.slice(start, end))
    else if (changes[name] !== undefined) {
      if (found.has(name)) return false
      found.add(name)
      const value = text.slice(colon + 1, end)
      pieces.push(text.slice(start, colon + 1) + value.replace(value.trim(), () => String(changes[name])))
    }
    start = end + 1
    colon = -1
    return true
  }
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit === QUOTE) at = endOfString(text, at)
    else if (OPEN.has(unit)) {
      if (++depth === 1) start = at + 1
    } else if (unit === COLON && depth === 1 && colon < 0) colon = at
    else if ((unit === COMMA && depth === 1) || (CLOSE.has(unit) && --depth === 0)) {
      if (!add(at)) return undefined
    }
  }
  const isWhole = Object.entries(changes).every(([name, json]) => json === undefined || found.has(name))
  return isWhole ? `{${pieces.join(',')}}` : undefined
}

/** The index of the closing quote. */
function endOfString(text: string, start: number): number {
  let at = start + 1
  while (at < text.length && text.charCodeAt(at) !== QUOTE) at += text.charCodeAt(at) === BACKSLASH ? 2 : 1
  return at
}

// The messages that clients get, by their bytes: a client of messages, such as one over stdio, gets the message that was
// judged without another parse. If a stage changes a response, the new bytes are parsed.

interface ShownEvent extends Partial<ReceivedMessage> {
  /** The id after which a client may resume the stream. */
  readonly id?: string | null | undefined
}

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
  const text = stringifyJson(message)
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
  const message = text === '' || isTooCostly(text) ? undefined : parseExactObject(text)
  return message && { message, text }
}
