// The streams of servers that flow into one stream of a client; the fault of any of them ends it.
import type { ClientStream } from './client-stream.js'

export class Flows {
  #stream: ClientStream
  #running = new Set<Promise<void>>()
  #faults: unknown[] = []

  constructor(stream: ClientStream) {
    this.#stream = stream
  }

  add(flow: Promise<void>): void {
    const running = flow
      .catch((fault: unknown) => {
        this.#faults.push(fault)
        this.#stream.end()
      })
      .finally(() => this.#running.delete(running))
    this.#running.add(running)
  }

  /** Resolves when those that run now have ended. */
  async ended(): Promise<void> {
    await Promise.all(this.#running)
  }

  /** Ends the stream of the client. Rejects with the first fault. */
  async end(): Promise<void> {
    this.#stream.end()
    await this.ended()
    if (this.#faults.length > 0) throw this.#faults[0]
  }
}
