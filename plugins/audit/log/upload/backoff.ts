// Exponential backoff with jitter for a failing control plane or store.

const MIN_DELAY_MS = 500
const MAX_DELAY_MS = 60_000

export class Backoff {
  readonly #random: () => number
  #failures = 0

  /** @param random returns a number from 0 up to, not including, 1. */
  constructor(random: () => number) {
    this.#random = random
  }

  /** Milliseconds until the next attempt: doubled after each failure, half of it random; at least `requestedMs`. */
  next(requestedMs = 0): number {
    const full = Math.min(MAX_DELAY_MS, MIN_DELAY_MS * 2 ** this.#failures)
    this.#failures = Math.min(this.#failures + 1, 16)
    // The cap also limits a longer wait that the other side requests: an hour of silence is an outage.
    return Math.min(MAX_DELAY_MS, Math.max(full / 2 + (this.#random() * full) / 2, requestedMs))
  }

  reset(): void {
    this.#failures = 0
  }
}
