// The days of a host whose wall clock may be set.
import { elapsed, type HostInstant, isSameBoot } from '@svc/core/store'
import { DAY_MS, dayOf } from './token-bucket.js'

/** The last instant that was seen, and a time that the wall clock had and that has passed. */
export interface SeenTime extends HostInstant {
  readonly verified: number
}

/**
 * The verified time follows a clock that was set ahead at twice the pace of time, and by a day after a boot, so that
 * nothing is deleted as old because of a clock that is wrong for a while. It never goes back.
 */
export function seen(last: SeenTime | undefined, now: HostInstant): SeenTime {
  const { wall, steady, boot } = now
  // One literal: properties after a spread would give each object a hidden class of its own.
  if (last === undefined) return { wall, steady, boot, verified: wall }
  const limit = last.verified + (isSameBoot(last, now) ? 2 * (steady - last.steady) : DAY_MS)
  return { wall, steady, boot, verified: Math.max(last.verified, Math.min(wall, limit)) }
}

/** The oldest day whose counts are kept. A clock that is set back further counts for this day, as it has begun. */
export function oldestDay({ verified }: SeenTime): number {
  return dayOf(verified) - 1
}

/** A warning about the clock for the operator; undefined if the clock is right. */
export function clockWarning(last: SeenTime | undefined, now: HostInstant): string | undefined {
  if (last === undefined) return undefined
  const at = new Date(now.wall).toISOString()
  if (dayOf(now.wall) < oldestDay(last)) {
    const day = new Date(oldestDay(last) * DAY_MS).toISOString().slice(0, 10)
    return `the clock of this host (${at}) was set back: calls count for ${day}, whose counts have begun`
  }
  const aheadMs = now.wall - last.wall - elapsed(last, now)
  if (aheadMs < DAY_MS) return undefined
  return `the clock of this host was set ahead by ${Math.round(aheadMs / DAY_MS)} days, to ${at}: a new day of calls has begun`
}
