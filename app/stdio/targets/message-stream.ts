// A stream of messages to one reader, up to a number of unread bytes.

import { Readable } from 'node:stream'
import type { Abortable } from '@svc/core'
import { stringifyJson } from '@svc/core/json'
import { eventStreamHeaders } from '../../http/event-stream-rules.js'
import { checkServerMessage, type Fields } from '../../mcp/rpc-response.js'
import type { EventsResponse, ReceivedMessage, StreamLimits } from '../../mcp/servers.js'
import { responseTooLarge } from '../../upstream/response-limits.js'

/** Bytes that a reader may leave unread before notifications for it are dropped. */
const maxUnreadBytes = 4 * 1024 * 1024

interface SizedMessage extends ReceivedMessage {
  readonly bytes: number
}

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
    for await (const { message, text, bytes } of this.#stream as AsyncIterable<SizedMessage>) {
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

  #push(message: Fields, text = stringifyJson(message)): void {
    const bytes = Buffer.byteLength(text)
    this.#unreadBytes += bytes
    this.#stream.push({ message, text, bytes } satisfies SizedMessage)
  }
}
