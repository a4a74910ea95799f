// Leaves the machine to those who append: while they do, the upload works for a small part of the time, also
// where another core seems to be free, since memory, caches and the disk are shared with it. In quiet it goes as
// fast as it can.

import { performance } from 'node:perf_hooks'
import { setTimeout as after, setImmediate as turn } from 'node:timers/promises'

// Rest for each part of work. Measured on two cores (`npm run bench -- --only upload`): with 7 appends slow by 5 to
// 7 %, with 11 by 3 %, and the upload still sends 45 MB/s, which is some 50,000 records a second.
const REST = 11
// What a timer can be trusted with.
const SHORTEST_REST_MS = 2
const BUSY_FOR_MS = 100

/** Says to the upload's thread that records become durable: memory that both threads see. */
export class AppendCounter {
  readonly shared: Int32Array<SharedArrayBuffer>

  constructor(shared = new Int32Array(new SharedArrayBuffer(4))) {
    this.shared = shared
  }

  grew(): void {
    Atomics.add(this.shared, 0, 1)
  }

  get value(): number {
    return Atomics.load(this.shared, 0)
  }
}

export class Pace {
  readonly #appends: AppendCounter
  #seen: number
  #grewAt = Number.NEGATIVE_INFINITY
  #worked = activeMs()
  #owed = 0
  // One queue for all files: several that rest by turns would together not rest at all.
  #turn: Promise<unknown> = Promise.resolve()

  constructor(appends: AppendCounter) {
    this.#appends = appends
    this.#seen = appends.value
  }

  /** Resolves when the next piece may be read. */
  rest(): Promise<unknown> {
    this.#turn = this.#turn.then(() => this.#rest())
    return this.#turn
  }

  #rest(): Promise<unknown> {
    const worked = activeMs()
    this.#owed += (worked - this.#worked) * REST
    this.#worked = worked
    if (!this.#isBusy()) this.#owed = 0
    if (this.#owed < SHORTEST_REST_MS) return turn()
    const rest = this.#owed
    this.#owed = 0
    return after(rest)
  }

  #isBusy(): boolean {
    const now = performance.now()
    const appends = this.#appends.value
    if (appends !== this.#seen) this.#grewAt = now
    this.#seen = appends
    return now - this.#grewAt < BUSY_FOR_MS
  }
}

/** Milliseconds for which this thread has been at work, everything it sends included. */
function activeMs(): number {
  return performance.eventLoopUtilization().active
}
