// Exponential backoff with jitter for a failing control plane or store.

/** Milliseconds: the delay after the first failure, and the longest. */
interface DelayBounds {
  readonly min: number
  readonly max: number
}

export class Backoff {
  readonly #random: () => number
  readonly #bounds: DelayBounds
  #failures = 0

  /** @param random returns a number from 0 up to, not including, 1. */
  constructor(random: () => number, bounds: DelayBounds) {
    this.#random = random
    this.#bounds = bounds
  }

  /** Milliseconds until the next attempt: doubled after each failure, half of it random; at least `requestedMs`. */
  next(requestedMs = 0): number {
    const { min, max } = this.#bounds
    const full = Math.min(max, min * 2 ** this.#failures)
    this.#failures = Math.min(this.#failures + 1, 16)
    // The cap also limits a longer wait that the other side requests: an hour of silence is an outage.
    return Math.min(max, Math.max(full / 2 + (this.#random() * full) / 2, requestedMs))
  }

  reset(): void {
    this.#failures = 0
  }
}
