// Limits the work of the upload while records are appended, also where another core seems free, because memory,
// caches and the disk are shared. Without appends the upload runs at full speed.

import { performance } from 'node:perf_hooks'
import { setTimeout as after, setImmediate as nextTurn } from 'node:timers/promises'

// Pause per unit of work. Measured on two cores (`npm run bench -- --only upload`): 7 slows appends by 5 to 7 %,
// 11 by 3 %, and the upload still sends 45 MB/s, about 50,000 records a second.
const PAUSE_PER_WORK = 11
// Timers are too coarse for shorter pauses.
const MIN_PAUSE_MS = 2
const BUSY_WINDOW_MS = 100

/** Counts durable batches in memory that the writer and the upload's thread share. */
export class AppendCounter {
  readonly shared: Int32Array<SharedArrayBuffer>

  constructor(shared = new Int32Array(new SharedArrayBuffer(4))) {
    this.shared = shared
  }

  increment(): void {
    Atomics.add(this.shared, 0, 1)
  }

  get value(): number {
    return Atomics.load(this.shared, 0)
  }
}

export class UploadThrottle {
  readonly #appends: AppendCounter
  #seen: number
  #lastAppendAt = Number.NEGATIVE_INFINITY
  #activeMs = activeMs()
  #pauseDueMs = 0
  // One queue for all files: if each paused on its own, the others would use the time.
  #queue: Promise<unknown> = Promise.resolve()

  constructor(appends: AppendCounter) {
    this.#appends = appends
    this.#seen = appends.value
  }

  /** Resolves when the next chunk may be read. */
  wait(): Promise<unknown> {
    this.#queue = this.#queue.then(() => this.#pause())
    return this.#queue
  }

  #pause(): Promise<unknown> {
    const active = activeMs()
    this.#pauseDueMs += (active - this.#activeMs) * PAUSE_PER_WORK
    this.#activeMs = active
    if (!this.#isBusy()) this.#pauseDueMs = 0
    if (this.#pauseDueMs < MIN_PAUSE_MS) return nextTurn()
    const pause = this.#pauseDueMs
    this.#pauseDueMs = 0
    return after(pause)
  }

  #isBusy(): boolean {
    const now = performance.now()
    const appends = this.#appends.value
    if (appends !== this.#seen) this.#lastAppendAt = now
    this.#seen = appends
    return now - this.#lastAppendAt < BUSY_WINDOW_MS
  }
}

/** Milliseconds that this thread has been busy, including sending. */
function activeMs(): number {
  return performance.eventLoopUtilization().active
}
