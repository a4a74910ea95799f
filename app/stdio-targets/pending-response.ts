// The response to one request: a message if it comes first, else a stream of messages that the response ends.
import { Readable } from 'node:stream'
import type { Abortable } from '@svc/core'
import { eventStreamHeaders } from '../http/event-stream-rules.js'
import { checkServerMessage, type Fields } from '../mcp/rpc-response.js'
import {
  type EventsResponse,
  type McpResponse,
  messageResponse,
  type ReceivedMessage,
  type StreamLimits,
} from '../mcp/servers.js'
import { responseTooLarge } from '../upstream/response-limit.js'
import type { PendingRequest } from './rpc-channel.js'

/** Bytes that a reader may leave unread before notifications for it are dropped. */
const maxUnreadBytes = 4 * 1024 * 1024

interface Sized extends ReceivedMessage {
  readonly bytes: number
}

/** A stream of messages to one reader, up to a cap. */
export class MessageStream implements EventsResponse {
  readonly form = 'events'
  readonly status = 200
  readonly headers = { ...eventStreamHeaders }
  readonly #stream: Readable
  #unreadBytes = 0
  #isEnded = false

  /** `onClose` runs when the stream was read to its end, when the reader stops before, and when `signal` aborts. */
  constructor(onClose: () => void, signal?: Abortable) {
    const abort = (): void => this.fail(signal?.reason)
    signal?.addEventListener('abort', abort)
    this.#stream = new Readable({ objectMode: true, read: () => undefined })
    // A reader gets the error from the iteration; without a reader, the event must not end the process.
    this.#stream.on('error', () => undefined)
    this.#stream.once('close', () => {
      signal?.removeEventListener('abort', abort)
      onClose()
    })
  }

  async *events({ maxBytes = Number.POSITIVE_INFINITY }: StreamLimits): AsyncGenerator<ReceivedMessage> {
    let read = 0
    for await (const { message, text, bytes } of this.#stream as AsyncIterable<Sized>) {
      this.#unreadBytes -= bytes
      read += bytes
      if (read > maxBytes) throw responseTooLarge(maxBytes)
      yield { message: checkServerMessage(message), text }
    }
  }

  /** False if the stream has ended, or the reader has too much unread. */
  offer(message: Fields, text?: string): boolean {
    if (this.#isEnded || this.#stream.destroyed || this.#unreadBytes > maxUnreadBytes) return false
    this.#push(message, text)
    return true
  }

  /** Sends the last message, whatever is unread; without one the stream just ends. */
  end(message?: Fields, text?: string): void {
    if (this.#isEnded || this.#stream.destroyed) return
    this.#isEnded = true
    if (message !== undefined) this.#push(message, text)
    this.#stream.push(null)
  }

  fail(error: unknown): void {
    this.#stream.destroy(error instanceof Error ? error : new Error(String(error)))
  }

  async discard(): Promise<void> {
    this.#stream.destroy()
  }

  #push(message: Fields, text = JSON.stringify(message)): void {
    const bytes = Buffer.byteLength(text)
    this.#unreadBytes += bytes
    this.#stream.push({ message, text, bytes } satisfies Sized)
  }
}

export class PendingResponse implements PendingRequest {
  readonly begun: Promise<McpResponse>
  #resolve: (response: McpResponse) => void = () => undefined
  #reject: (reason: unknown) => void = () => undefined
  #acceptsEvents: boolean
  #translate: (response: Fields) => Fields
  #statusOf: (response: Fields) => number
  #onSettled: () => void
  #onLeave: () => void
  #stream: MessageStream | undefined
  #isSettled = false

  /** `onSettled` runs once, with the response or without one; `onLeave` when nobody reads the response any more. */
  constructor(options: {
    readonly acceptsEvents: boolean
    readonly translate: (response: Fields) => Fields
    readonly statusOf: (response: Fields) => number
    readonly onSettled: () => void
    readonly onLeave: () => void
  }) {
    this.#acceptsEvents = options.acceptsEvents
    this.#translate = options.translate
    this.#statusOf = options.statusOf
    this.#onSettled = options.onSettled
    this.#onLeave = options.onLeave
    this.begun = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  progress(message: Fields): void {
    this.offer(message)
  }

  response(response: Fields, text: string): void {
    if (this.#isSettled) return
    const message = this.#translate(response)
    const shown = message === response ? text : JSON.stringify(message)
    if (this.#stream === undefined)
      this.#resolve(messageResponse({ message, text: shown }, this.#statusOf(message)))
    else this.#stream.end(message, shown)
    this.#settle()
  }

  /** Sends a message before the response; false if it cannot be sent. */
  offer(message: Fields, text?: string): boolean {
    return this.#acceptsEvents && !this.#isSettled && this.#events().offer(message, text)
  }

  failed(error: Parameters<PendingRequest['failed']>[0]): void {
    this.abort(error)
  }

  /** Ends without a response: the client has cancelled the request. */
  cancel(): void {
    if (this.#isSettled) return
    this.#events().end()
    this.#settle()
  }

  abort(reason: unknown): void {
    if (this.#isSettled) return
    if (this.#stream === undefined) this.#reject(reason)
    else this.#stream.fail(reason)
    this.#settle()
  }

  #events(): MessageStream {
    if (this.#stream === undefined) {
      this.#stream = new MessageStream(() => {
        if (this.#isSettled) return
        this.#settle()
        this.#onLeave()
      })
      this.#resolve(this.#stream)
    }
    return this.#stream
  }

  #settle(): void {
    this.#isSettled = true
    this.#onSettled()
  }
}
