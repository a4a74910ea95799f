// A stream of notifications to a client, into which the streams of several servers are merged.
import type { ClientExchange } from '../http/client-exchange.js'
import { eventStreamHeaders } from '../http/event-stream-rules.js'

export class ClientStream {
  /** Resolves when the head is written. */
  readonly begun: Promise<void>
  /** Resolves when the client has left or the stream has ended. */
  readonly closed: Promise<void>
  #exchange: ClientExchange
  #keepAlive: NodeJS.Timeout
  #begin: () => void = () => undefined
  #close: () => void = () => undefined
  #listeners = new Set<() => void>()
  #isOpen = true

  constructor(exchange: ClientExchange, keepAliveMs: number) {
    this.#exchange = exchange
    this.begun = new Promise((resolve) => {
      this.#begin = resolve
    })
    this.closed = new Promise((resolve) => {
      this.#close = resolve
    })
    this.#keepAlive = setInterval(() => exchange.isBegun && exchange.keepAlive(), keepAliveMs).unref()
    exchange.onDisconnect(() => this.#stop())
    if (exchange.isDisconnected) this.#stop()
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  /** Writes the head, once, and then `first`. */
  begin(first?: Uint8Array): void {
    if (this.#exchange.isBegun || !this.#isOpen) return
    this.#exchange.begin(200, eventStreamHeaders)
    if (first !== undefined) void this.#exchange.write(first)
    this.#begin()
  }

  /** Waits for the head. Resolves when more may be written. */
  async write(bytes: Uint8Array): Promise<void> {
    if (!this.#exchange.isBegun) await Promise.race([this.begun, this.closed])
    if (!this.#isOpen || bytes.byteLength === 0) return
    this.#keepAlive.refresh()
    const unread = this.#exchange.write(bytes)
    if (unread === undefined) return
    await this.#until((resume) => {
      void unread.then(resume)
      return () => undefined
    })
  }

  /** Resolves after `ms`, or when the stream closes. */
  async pause(ms: number): Promise<void> {
    await this.#until((resume) => {
      const timer = setTimeout(resume, ms).unref()
      return () => clearTimeout(timer)
    })
  }

  /** Runs `listener` when the stream closes, at once if it has. Returns a function that removes the listener. */
  onClose(listener: () => void): () => void {
    if (!this.#isOpen) listener()
    else this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  end(): void {
    if (!this.#isOpen) return
    this.#stop()
    this.#exchange.end()
  }

  async #until(wait: (resume: () => void) => () => void): Promise<void> {
    await new Promise<void>((resolve) => {
      const done = (): void => {
        stopWaiting()
        stopListening()
        resolve()
      }
      let stopListening: () => unknown = () => undefined
      const stopWaiting = wait(done)
      stopListening = this.onClose(done)
    })
  }

  #stop(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    clearInterval(this.#keepAlive)
    this.#close()
    for (const listener of [...this.#listeners]) listener()
  }
}

/** The running streams of servers that are merged into a client's stream; an error of one of them ends it. */
export class Flows {
  #stream: ClientStream
  #running = new Set<Promise<void>>()
  #errors: unknown[] = []

  constructor(stream: ClientStream) {
    this.#stream = stream
  }

  add(flow: Promise<void>): void {
    const running = flow
      .catch((error: unknown) => {
        this.#errors.push(error)
        this.#stream.end()
      })
      .finally(() => this.#running.delete(running))
    this.#running.add(running)
  }

  /** Resolves when the streams that run now have ended. */
  async ended(): Promise<void> {
    await Promise.all(this.#running)
  }

  /** Ends the stream of the client. Rejects with the first error. */
  async end(): Promise<void> {
    this.#stream.end()
    await this.ended()
    if (this.#errors.length > 0) throw this.#errors[0]
  }
}
