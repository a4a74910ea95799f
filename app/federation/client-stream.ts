// A stream of notifications to a client, into which the streams of several servers flow.
import type { ServerResponse } from 'node:http'
import { isDisconnected, onDisconnect } from '../http/disconnect.js'
import { eventStreamHeaders } from '../http/event-stream-rules.js'

export class ClientStream {
  /** Resolves when the head is written. */
  readonly begun: Promise<void>
  /** Resolves when the client has left or the stream has ended. */
  readonly closed: Promise<void>
  #response: ServerResponse
  #keepAlive: NodeJS.Timeout
  #begin: () => void = () => undefined
  #close: () => void = () => undefined
  #listeners = new Set<() => void>()
  #isOpen = true

  constructor(response: ServerResponse, keepAliveMs: number) {
    this.#response = response
    this.begun = new Promise((resolve) => {
      this.#begin = resolve
    })
    this.closed = new Promise((resolve) => {
      this.#close = resolve
    })
    this.#keepAlive = setInterval(() => this.#comment(), keepAliveMs).unref()
    onDisconnect(response, () => this.#stop())
    if (isDisconnected(response)) this.#stop()
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  /** Writes the head, once, and `first` directly after it. */
  begin(first?: Uint8Array): void {
    if (this.#response.headersSent || !this.#isOpen) return
    this.#response.writeHead(200, eventStreamHeaders)
    this.#response.flushHeaders()
    if (first !== undefined) this.#response.write(first)
    this.#begin()
  }

  /** Waits for the head. Resolves when more may be written. */
  async write(bytes: Uint8Array): Promise<void> {
    await Promise.race([this.begun, this.closed])
    if (!this.#isOpen || bytes.byteLength === 0) return
    this.#keepAlive.refresh()
    if (this.#response.write(bytes)) return
    await this.#until((resume) => {
      this.#response.once('drain', resume)
      return () => this.#response.off('drain', resume)
    })
  }

  /** Resolves after this time, or when the stream closes. */
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

  /** The client opens a new one. */
  end(): void {
    if (!this.#isOpen) return
    this.#stop()
    this.#response.end()
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

  #comment(): void {
    if (this.#isOpen && this.#response.headersSent && !this.#response.writableNeedDrain)
      this.#response.write(':\n\n')
  }

  #stop(): void {
    if (!this.#isOpen) return
    this.#isOpen = false
    clearInterval(this.#keepAlive)
    this.#close()
    for (const listener of [...this.#listeners]) listener()
  }
}
