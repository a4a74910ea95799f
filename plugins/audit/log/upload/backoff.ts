// How long to leave a failing control plane or store alone.

const BASE_MS = 500
const CAP_MS = 60_000

export class Backoff {
  readonly #random: () => number
  #failures = 0

  /** `random`: from 0 up to, not including, 1. */
  constructor(random: () => number) {
    this.#random = random
  }

  /** Milliseconds until the next attempt: doubled with each failure, half of it left to chance. */
  next(askedMs = 0): number {
    const full = Math.min(CAP_MS, BASE_MS * 2 ** this.#failures)
    this.#failures = Math.min(this.#failures + 1, 16)
    // Never longer than the cap, whatever the other side asks: an hour of silence is an outage.
    return Math.min(CAP_MS, Math.max(full / 2 + (this.#random() * full) / 2, askedMs))
  }

  reset(): void {
    this.#failures = 0
  }
}
