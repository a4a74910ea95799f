// Chooses calls by their trace, so that judging takes at most a part of one core.
import type { Clock } from '@svc/core'

const WINDOW_MS = 1_000

export class Sampling {
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #maxShare: number
  #rate = 1
  #began: number
  #offered = 0
  #judged = 0
  #spentMs = 0

  constructor(clock: Pick<Clock, 'monotonic'>, maxShare: number) {
    this.#clock = clock
    this.#maxShare = maxShare
    this.#began = clock.monotonic()
  }

  /** All calls of a trace are chosen, or none, while the rate stays. */
  choose(traceId: string): boolean {
    this.#adjust()
    this.#offered++
    // The window's time for all calls is used up.
    if (this.#spentMs >= this.#maxShare * WINDOW_MS) return false
    // The end of a trace id is random (W3C Trace Context), the beginning may be a time.
    return Number.parseInt(traceId.slice(-8), 16) / 2 ** 32 < this.#rate
  }

  /** A call was judged. */
  spent(ms: number): void {
    this.#judged++
    this.#spentMs += ms
  }

  /** The rate with which the calls of the last window would have stayed within the bound. */
  #adjust(): void {
    const passed = this.#clock.monotonic() - this.#began
    if (passed < WINDOW_MS) return
    if (this.#judged > 0) {
      const all = (this.#spentMs / this.#judged) * this.#offered
      this.#rate = Math.min(1, (this.#maxShare * passed) / all)
    }
    this.#began += passed
    this.#offered = 0
    this.#judged = 0
    this.#spentMs = 0
  }
}
