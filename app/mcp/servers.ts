// The port towards MCP servers: messages that are parsed once, each with its exact text. Servers over HTTP, processes over
// stdio and a server in this process implement it, so that callers work on messages and do not depend on the transport.
import { after, type MaybePromise, type ResponseHeaders } from '@svc/core'
import { eventOf, withData } from '@svc/core/http'
import { hasDuplicateMembers, type JsonObject, MAX_COST } from '@svc/core/json'
import { isMessageType, JSON_TYPE } from '../http/media-type.js'
import { discard } from '../upstream/discard.js'
import type { Discardable, UpstreamRequest, UpstreamResponse } from '../upstream/response.js'
import { wholeBody } from '../upstream/response-limits.js'
import { withMembers } from './member-text.js'
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
}

/** A response that is not a stream. Its methods throw or reject with `Refusal` (`PAYLOAD_TOO_LARGE`). */
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

  /** Throws or rejects with `ProtocolViolation` for anything but a message. */
  message(maxBytes: number): MaybePromise<ReceivedMessage & { readonly bytes: Uint8Array }> {
    return after(this.bytes(Math.min(maxBytes, MAX_COST)), (bytes) => {
      const text = this.#received?.text ?? decodeUtf8(bytes)
      const reading =
        this.#received === undefined ? readInTurns(text) : checkServerMessage(this.#received.message)
      return after(reading, (message) => ({ message, text, bytes: withoutByteOrderMark(bytes) }))
    })
  }

  bytes(maxBytes: number): MaybePromise<Uint8Array> {
    return after(wholeBody(this.#body, maxBytes), (bytes) => {
      this.#body = bytes
      return bytes
    })
  }

  discard(): Promise<void> {
    return discard(this.#body)
  }
}

/** A response that holds `message`. */
export function messageResponse(
  { message, text = JSON.stringify(message) }: { readonly message: Fields; readonly text?: string },
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
  const text = withMembers(received.text, change.members) ?? JSON.stringify(change.message)
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
  return shown === message && !hasDuplicateMembers(text, message) ? text : JSON.stringify(shown)
}

/** The bytes of an event for a client over HTTP, with `text` as its message. */
export function eventBytes({ frame, text: received }: McpEvent, text: string): Uint8Array {
  if (frame === undefined) return eventOf(text)
  return text === received ? frame : withData(frame, text)
}
