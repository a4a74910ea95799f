// The common parts of all stores: keys, UTC days and token buckets; and the interface for the stage.
import { createHash } from 'node:crypto'
import type { CountedLimit, MaybePromise, QuotaAdapter, ResetAt, StoreLifecycle } from '@svc/core'

/** The latest instant of a Date, in milliseconds since the epoch. */
export const END_OF_TIME = 8.64e15

// Refilling multiplies and divides, so a token that is exactly due may be slightly below one. The difference is taken
// on credit and settled by the next refill, so that it never adds up to a token.
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

  /** The bucket held `tokens` at the instant `at`. */
  constructor(tokens: number, at: number) {
    this.#tokens = tokens
    this.#at = at
    this.fullAt = at
  }

  /** The tokens at an instant, which are enough to restore the bucket. */
  get state(): { tokens: number; at: number } {
    return { tokens: this.#tokens, at: this.#at }
  }

  /**
   * Takes one token. `tokens` below zero: refused, and `resetAt` is when there will be one. Otherwise the tokens left,
   * and `resetAt` is when the bucket is full. A clock that is set back adds nothing.
   */
  take(ratePerSec: number, size: number, now: number): { tokens: number; resetAt: number } {
    const at = Math.max(now, this.#at)
    const available = Math.min(size, this.#tokens + ((at - this.#at) * ratePerSec) / 1000)
    if (available < 1 - ROUNDING) {
      return { tokens: available - 1, resetAt: refilledAt(at, 1 - available, ratePerSec) }
    }
    // Only a take changes the bucket, so that refused calls cannot accumulate rounding errors.
    this.#tokens = available - 1
    this.#at = at
    this.fullAt = refilledAt(at, size - this.#tokens, ratePerSec)
    return { tokens: Math.max(0, this.#tokens), resetAt: this.fullAt }
  }
}

function refilledAt(from: number, missing: number, ratePerSec: number): number {
  return Math.min(END_OF_TIME, from + Math.ceil((missing * 1000) / ratePerSec))
}

export const DAY_MS = 86_400_000

export function dayOf(now: number): number {
  return Math.floor(now / DAY_MS)
}

/** @throws {RangeError} if the limit is not valid */
export function checkDailyLimit(limit: number): void {
  if (!(limit >= 0)) throw new RangeError(`a daily limit is a number from 0, not ${limit}`)
}

/** @throws {RangeError} if the limit is not valid */
export function checkLimit(limit: CountedLimit): void {
  if (limit.unit === 'rate') checkedSize(limit.ratePerSec, limit.burst)
  else checkDailyLimit(limit.callsPerDay)
}

/** Maximum length in characters of at most three bytes: within the key limits of the stores. */
const MAX_LENGTH = 400

/**
 * The length marks the end of the tenant, which may contain any character. A long key, or one that UTF-8 cannot
 * encode, is replaced by its SHA-256.
 */
export function keyOf(tenant: string, tool: string): string {
  const key = `${tenant.length}:${tenant}:${tool}`
  if (key.length <= MAX_LENGTH && key.isWellFormed()) return key
  return `#${createHash('sha256').update(key, 'utf16le').digest('base64url')}`
}

type MaybeAsync<F extends (...args: never[]) => unknown> = (
  ...args: Parameters<F>
) => MaybePromise<Awaited<ReturnType<F>>>

export interface QuotaStore extends StoreLifecycle {
  readonly incrDaily: MaybeAsync<QuotaAdapter['incrDaily']>
  readonly takeToken: MaybeAsync<QuotaAdapter['takeToken']>
  readonly countCall?: MaybeAsync<NonNullable<QuotaAdapter['countCall']>>
  readonly refundDaily?: MaybeAsync<NonNullable<QuotaAdapter['refundDaily']>>
}

/** The store as an adapter for other code, which expects promises. */
export function adapterOf(store: QuotaStore): QuotaAdapter {
  const { countCall, refundDaily } = store
  return {
    incrDaily: async (...args) => store.incrDaily(...args),
    takeToken: async (...args) => store.takeToken(...args),
    ...(countCall === undefined ? {} : { countCall: async (...args) => countCall(...args) }),
    ...(refundDaily === undefined ? {} : { refundDaily: async (...args) => refundDaily(...args) }),
    ready: () => store.ready?.(),
    warning: () => store.warning?.(),
  }
}

/** ISO 8601 with a time zone, without which the instant depends on the machine. */
const ISO_INSTANT = /^[+-]?\d{4,6}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)$/

/** Milliseconds since the epoch; NaN for an invalid instant. */
export function instantOf(resetAt: ResetAt): number {
  if (typeof resetAt === 'number') return resetAt
  if (resetAt instanceof Date) return resetAt.getTime()
  return typeof resetAt === 'string' && ISO_INSTANT.test(resetAt) ? Date.parse(resetAt) : Number.NaN
}
