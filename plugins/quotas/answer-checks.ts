// An adapter may be a user's code or a shared server: its answers are checked before they let a call through.

import type { ResetAt } from '@svc/core'

/** The latest instant of a Date, in milliseconds since the epoch. */
const END_OF_TIME = 8.64e15

/** ISO 8601 with a time zone, without which the instant depends on the machine. */
const ISO_INSTANT = /^[+-]?\d{4,6}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)$/

/** @throws {TypeError} when it is not what `QuotaAdapter.takeToken` promises */
export function checkBucket(answer: { tokens: number; resetAt: ResetAt }): void {
  if (!Number.isFinite(answer?.tokens)) {
    throw new TypeError(`takeToken answered no number of tokens: ${String(answer?.tokens)}`)
  }
  checkInstant('takeToken', answer.resetAt)
}

/** @throws {TypeError} when it is not what `QuotaAdapter.incrDaily` promises */
export function checkDay(answer: { count: number; resetAt: ResetAt }): void {
  if (!(Number.isSafeInteger(answer?.count) && answer.count > 0)) {
    throw new TypeError(`incrDaily answered no count of calls: ${String(answer?.count)}`)
  }
  checkInstant('incrDaily', answer.resetAt)
}

function checkInstant(method: string, resetAt: ResetAt): void {
  const instant = instantOf(resetAt)
  if (!(Number.isFinite(instant) && Math.abs(instant) <= END_OF_TIME)) {
    throw new TypeError(`${method} answered no instant of reset: ${String(resetAt)}`)
  }
}

/** Milliseconds since the epoch; NaN for an invalid instant. */
export function instantOf(resetAt: ResetAt): number {
  if (typeof resetAt === 'number') return resetAt
  if (resetAt instanceof Date) return resetAt.getTime()
  return typeof resetAt === 'string' && ISO_INSTANT.test(resetAt) ? Date.parse(resetAt) : Number.NaN
}
