// The answer to one request, as HTTP: JSON where the response comes first, else a stream of events that the response ends.
import { Readable } from 'node:stream'
import type { Abortable } from '@svc/core'
import { eventOf } from '@svc/core/http'
import { eventStreamHeaders } from '../http/event-stream-rules.js'
import type { Fields } from '../mcp/rpc-response.js'
import type { UpstreamAnswer } from '../upstream/answer.js'
import type { PendingRequest } from './rpc-channel.js'

/** What a reader may leave unread before notifications for it are dropped. */
const maxUnreadBytes = 4 * 1024 * 1024

export function jsonAnswer(
  message: Fields | string,
  status = 200,
  headers: Record<string, string> = {},
): UpstreamAnswer {
  const body = Buffer.from(textOf(message))
  return { status, headers: { ...headers, 'content-type': 'application/json' }, body }
}

function textOf(message: Fields | string): string {
  return typeof message === 'string' ? message : JSON.stringify(message)
}

/** A stream of messages as events, up to a cap. */
export class EventBody {
  readonly #stream: Readable
  #isEnded = false

  /** `onClose` runs when it was read to its end, when the reader stops before, and when `signal` aborts. */
  constructor(onClose: () => void, signal?: Abortable) {
    const abort = (): void => this.fail(signal?.reason)
    signal?.addEventListener('abort', abort)
    this.#stream = new Readable({ read: () => undefined })
    // A reader gets the error from the iteration; without a reader, the event must not end the process.
    this.#stream.on('error', () => undefined)
    this.#stream.once('close', () => {
      signal?.removeEventListener('abort', abort)
      onClose()
    })
  }

  get answer(): UpstreamAnswer {
    return { status: 200, headers: eventStreamHeaders, body: this.#stream }
  }

  /** False where the stream has ended, or the reader has too much unread. */
  offer(message: Fields): boolean {
    if (this.#isEnded || this.#stream.destroyed) return false
    if (this.#stream.readableLength > maxUnreadBytes) return false
    this.#stream.push(eventOf(JSON.stringify(message)))
    return true
  }

  /** The last message, whatever is unread; none where the stream just ends. */
  end(message?: Fields | string): void {
    if (this.#isEnded || this.#stream.destroyed) return
    this.#isEnded = true
    if (message !== undefined) this.#stream.push(eventOf(textOf(message)))
    this.#stream.push(null)
  }

  fail(fault: unknown): void {
    this.#stream.destroy(fault instanceof Error ? fault : new Error(String(fault)))
  }
}

export class RequestAnswer implements PendingRequest {
  readonly answer: Promise<UpstreamAnswer>
  #resolve: (answer: UpstreamAnswer) => void = () => undefined
  #reject: (reason: unknown) => void = () => undefined
  #acceptsEvents: boolean
  #translate: (response: Fields) => Fields
  #statusOf: (response: Fields) => number
  #onSettled: () => void
  #onLeave: () => void
  #body: EventBody | undefined
  #isSettled = false

  /** `onSettled` runs once, with the response or without one; `onLeave` when nobody reads the answer any more. */
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
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  progress(message: Fields): void {
    this.offer(message)
  }

  response(response: Fields, text: string): void {
    if (this.#isSettled) return
    const translated = this.#translate(response)
    const shown = translated === response ? text : translated
    if (this.#body === undefined) this.#resolve(jsonAnswer(shown, this.#statusOf(translated)))
    else this.#body.end(shown)
    this.#settle()
  }

  /** A message before the response; false where it cannot be sent. */
  offer(message: Fields): boolean {
    return this.#acceptsEvents && !this.#isSettled && this.#events().offer(message)
  }

  failed(fault: Parameters<PendingRequest['failed']>[0]): void {
    this.abort(fault)
  }

  /** Ends without a response: the client has cancelled the request. */
  cancel(): void {
    if (this.#isSettled) return
    this.#events().end()
    this.#settle()
  }

  abort(reason: unknown): void {
    if (this.#isSettled) return
    if (this.#body === undefined) this.#reject(reason)
    else this.#body.fail(reason)
    this.#settle()
  }

  #events(): EventBody {
    if (this.#body === undefined) {
      this.#body = new EventBody(() => {
        if (this.#isSettled) return
        this.#settle()
        this.#onLeave()
      })
      this.#resolve(this.#body.answer)
    }
    return this.#body
  }

  #settle(): void {
    this.#isSettled = true
    this.#onSettled()
  }
}
