// One token bucket: filled at a steady rate up to its size, one token a call.

/** The latest instant a Date can tell, in milliseconds since the epoch. */
const END_OF_TIME = 8.64e15

// Refilling multiplies and divides, so a token that is exactly due may come out a hair below one. What is taken
// on credit here is paid back by the next refill, so the hairs never add up to a token.
const ROUNDING = 1e-9

/** @throws {RangeError} when no bucket can have such a rate or size */
export function checkedSize(ratePerSec: number, burst: number | undefined): number {
  if (!(ratePerSec > 0 && ratePerSec < Infinity)) {
    throw new RangeError(`a rate is a number of tokens per second over 0, not ${ratePerSec}`)
  }
  const size = bucketSize(ratePerSec, burst)
  if (!(size < Infinity)) throw new RangeError(`a burst is a number from 1, not ${burst}`)
  return size
}

export function bucketSize(ratePerSec: number, burst: number | undefined): number {
  return Math.max(1, burst ?? ratePerSec)
}

export class TokenBucket {
  /** When it is full again, by the rate of the last take; milliseconds since the epoch. */
  fullAt: number
  #tokens: number
  #at: number

  /** It held `tokens` at the instant `at`. */
  constructor(tokens: number, at: number) {
    this.#tokens = tokens
    this.#at = at
    this.fullAt = at
  }

  /** What it held, and when: enough to make it again. */
  get state(): { tokens: number; at: number } {
    return { tokens: this.#tokens, at: this.#at }
  }

  /**
   * Takes one token. Below zero: refused, nothing was taken, and `resetAt` is when there will be one; else what is
   * left, and `resetAt` is when the bucket is full. Time that runs backwards earns nothing.
   */
  take(ratePerSec: number, size: number, now: number): { tokens: number; resetAt: number } {
    const at = Math.max(now, this.#at)
    const available = Math.min(size, this.#tokens + ((at - this.#at) * ratePerSec) / 1000)
    if (available < 1 - ROUNDING) {
      return { tokens: available - 1, resetAt: refilledAt(at, 1 - available, ratePerSec) }
    }
    // Only a take moves the bucket on: refused calls, however many, cannot gather rounding errors.
    this.#tokens = available - 1
    this.#at = at
    this.fullAt = refilledAt(at, size - this.#tokens, ratePerSec)
    return { tokens: Math.max(0, this.#tokens), resetAt: this.fullAt }
  }
}

function refilledAt(from: number, missing: number, ratePerSec: number): number {
  return Math.min(END_OF_TIME, from + Math.ceil((missing * 1000) / ratePerSec))
}
