// Limits the work of the upload while records are appended, even if another core seems free, because memory,
// caches and the disk are shared. Without appends the upload runs at full speed.

import { performance } from 'node:perf_hooks'
import { setTimeout as after, setImmediate as nextTurn } from 'node:timers/promises'

// Pause per unit of work. Measured on two cores (`npm run bench -- --only upload`): 7 slows appends by 5 to 7 %,
// 11 by 3 %, and the upload still sends 45 MB/s, about 50,000 records a second.
const PAUSE_PER_WORK = 11
// Timers are too coarse for shorter pauses.
const MIN_PAUSE_MS = 2
const BUSY_WINDOW_MS = 100

export class UploadThrottle {
  readonly #appends: Int32Array<SharedArrayBuffer>
  #seen: number
  #lastAppendAt = Number.NEGATIVE_INFINITY
  #activeMs = activeMs()
  #pauseDueMs = 0
  // One queue for all files: if each paused on its own, the others would use the time.
  #queue: Promise<unknown> = Promise.resolve()

  /** @param appends counts durable batches, in memory that the writer shares. */
  constructor(appends: Int32Array<SharedArrayBuffer>) {
    this.#appends = appends
    this.#seen = Atomics.load(appends, 0)
  }

  /** Resolves when the next chunk may be read. */
  wait(): Promise<unknown> {
    this.#queue = this.#queue.then(() => this.#pause())
    return this.#queue
  }

  async #pause(): Promise<unknown> {
    const active = activeMs()
    this.#pauseDueMs += (active - this.#activeMs) * PAUSE_PER_WORK
    this.#activeMs = active
    if (!this.#isBusy()) this.#pauseDueMs = 0
    if (this.#pauseDueMs < MIN_PAUSE_MS) return nextTurn()
    let pause = this.#pauseDueMs
    this.#pauseDueMs = 0
    // When appends end, as before a close with its time limit, so does the pause.
    for (; pause > 0 && this.#isBusy(); pause -= BUSY_WINDOW_MS) await after(Math.min(pause, BUSY_WINDOW_MS))
    return undefined
  }

  #isBusy(): boolean {
    const now = performance.now()
    const appends = Atomics.load(this.#appends, 0)
    if (appends !== this.#seen) this.#lastAppendAt = now
    this.#seen = appends
    return now - this.#lastAppendAt < BUSY_WINDOW_MS
  }
}

/** Milliseconds that this thread has been busy, including sending. */
function activeMs(): number {
  return performance.eventLoopUtilization().active
}
