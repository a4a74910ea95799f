// A stream of notifications to a client, into which the streams of several servers are merged.
import { setMaxListeners } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { abortable, type MaybePromise } from '@svc/core'
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
  #closing = new AbortController()

  constructor(exchange: ClientExchange, keepAliveMs: number) {
    this.#exchange = exchange
    this.begun = new Promise((resolve) => {
      this.#begin = resolve
    })
    setMaxListeners(0, this.#closing.signal)
    this.closed = new Promise((resolve) => this.onClose(resolve))
    this.#keepAlive = setInterval(() => exchange.isBegun && exchange.keepAlive(), keepAliveMs).unref()
    exchange.onDisconnect(() => this.#stop())
    if (exchange.isDisconnected) this.#stop()
  }

  get isOpen(): boolean {
    return !this.#closing.signal.aborted
  }

  /** Writes the head, once, and then `first`. */
  begin(first?: Uint8Array): void {
    if (this.#exchange.isBegun || !this.isOpen) return
    this.#exchange.begin(200, eventStreamHeaders)
    this.#exchange.keepAlive()
    if (first !== undefined) void this.#exchange.write(first)
    this.#begin()
  }

  /** Waits for the head. Resolves when more may be written. */
  async write(bytes: Uint8Array): Promise<void> {
    if (!this.#exchange.isBegun) await this.#whileOpen(this.begun)
    if (!this.isOpen || bytes.byteLength === 0) return
    this.#keepAlive.refresh()
    await this.#whileOpen(this.#exchange.write(bytes))
  }

  /** Resolves after `ms`, or when the stream closes. */
  pause(ms: number): Promise<void> {
    return this.#whileOpen(delay(ms, undefined, { ref: false, signal: this.#closing.signal }))
  }

  /** Runs `listener` when the stream closes, at once if it has. Returns a function that removes the listener. */
  onClose(listener: () => void): () => void {
    const { signal } = this.#closing
    if (signal.aborted) listener()
    else signal.addEventListener('abort', listener)
    return () => signal.removeEventListener('abort', listener)
  }

  end(): void {
    if (!this.isOpen) return
    this.#stop()
    this.#exchange.end()
  }

  /** Resolves when `work` does, or when the stream closes. */
  async #whileOpen(work: MaybePromise<void>): Promise<void> {
    if (work === undefined) return
    try {
      await abortable(this.#closing.signal, work)
    } catch (error) {
      if (this.isOpen) throw error
    }
  }

  #stop(): void {
    clearInterval(this.#keepAlive)
    this.#closing.abort()
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
