// Days in UTC, by their number since the epoch.

export const DAY_MS = 86_400_000

export function dayOf(now: number): number {
  return Math.floor(now / DAY_MS)
}

/** @throws {RangeError} when nothing can be counted against it */
export function checkDailyLimit(limit: number): void {
  if (!(limit >= 0)) throw new RangeError(`a daily limit is a number from 0, not ${limit}`)
}
