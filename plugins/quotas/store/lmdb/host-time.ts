// Time of a host whose wall clock may be set: days by the wall clock, and durations by the monotonic clock, which all
// processes of the host share until it boots again.
import { readFileSync } from 'node:fs'
import { DAY_MS, dayOf } from '../token-bucket.js'

export interface HostInstant {
  /** Milliseconds since the epoch. */
  readonly wall: number
  /** Milliseconds of the monotonic clock. */
  readonly steady: number
  /** Identifies the boot since which `steady` counts. */
  readonly boot: number
}

export function isSameBoot(from: HostInstant, to: HostInstant): boolean {
  return from.boot === to.boot && to.steady >= from.steady
}

/** Milliseconds from one instant to a later one; after a boot, what the wall clock shows. */
export function elapsed(from: HostInstant, to: HostInstant): number {
  return isSameBoot(from, to) ? to.steady - from.steady : Math.max(0, to.wall - from.wall)
}

/** The last instant that was seen, and a time that the wall clock had and that has passed. */
export interface SeenTime extends HostInstant {
  readonly verified: number
}

/**
 * The verified time follows a clock that was set ahead at twice the pace of time, and by a day after a boot, so that
 * nothing is deleted as old because of a clock that is wrong for a while. It never goes back.
 */
export function seen(last: SeenTime | undefined, now: HostInstant): SeenTime {
  if (last === undefined) return { ...now, verified: now.wall }
  const limit = last.verified + (isSameBoot(last, now) ? 2 * (now.steady - last.steady) : DAY_MS)
  return { ...now, verified: Math.max(last.verified, Math.min(now.wall, limit)) }
}

/** The oldest day whose counts are kept. A clock that is set back further counts for this day, as it has begun. */
export function oldestDay({ verified }: SeenTime): number {
  return dayOf(verified) - 1
}

/** What an operator should know of the clock; undefined if it is as it should be. */
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

/** Counts of other boots are not comparable; 0 where the system does not name the boot. */
export const thisBoot = bootNumber()

function bootNumber(): number {
  try {
    const id = readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').replaceAll('-', '')
    return Number.parseInt(id.slice(0, 13), 16) || 0
  } catch (error) {
    // Another system: a clock that reads less than before shows that it booted.
    if (error instanceof Error) return 0
    throw error
  }
}
