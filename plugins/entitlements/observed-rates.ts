// Limits that let pass what was observed, times a headroom.

import type { Limit } from '@svc/core'
import { defined } from '@svc/core/json'
import type { ToolLimitConfig } from './config.js'

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

interface Observed {
  /** The most calls in one UTC day, and in a minute from a call on. */
  readonly perDay: number
  readonly perMinute: number
  /** The bucket that calls at these times need, if it is filled by the rate of the busiest minute. */
  readonly bucket: number
}

/** `times` are in milliseconds, ascending. */
function observe(times: readonly number[]): Observed {
  let [perDay, perMinute, ofDay, day, first] = [0, 0, 0, Number.NaN, 0]
  for (const [index, at] of times.entries()) {
    const own = Math.floor(at / DAY_MS)
    ofDay = own === day ? ofDay + 1 : 1
    day = own
    perDay = Math.max(perDay, ofDay)
    while ((times[first] ?? at) <= at - MINUTE_MS) first++
    perMinute = Math.max(perMinute, index - first + 1)
  }
  let [level, bucket, before] = [0, 0, times[0] ?? 0]
  for (const at of times) {
    level = Math.max(0, level - ((at - before) * perMinute) / MINUTE_MS) + 1
    before = at
    bucket = Math.max(bucket, level)
  }
  return { perDay, perMinute, bucket }
}

/** The limits that are tighter than those in force; undefined if none is. `times` are sorted. */
export function limitsFrom(
  times: number[],
  inForce: readonly Limit[],
  headroom: number,
): ToolLimitConfig | undefined {
  const { perDay, perMinute, bucket } = observe(times.sort((a, b) => a - b))
  const [daily] = inForce.flatMap(({ callsPerDay }) => callsPerDay ?? [])
  const [rated] = inForce.filter(({ ratePerSec }) => ratePerSec !== undefined)
  const [rate, day] = [roundedUp((headroom * perMinute) / 60), Math.ceil(headroom * perDay)]
  const isRateTighter = rated?.ratePerSec === undefined || rate < rated.ratePerSec
  const isDayTighter = daily === undefined || day < daily
  if (!isRateTighter && !isDayTighter) return undefined
  const known = rated?.ratePerSec
  const knownBurst = known === undefined ? Number.POSITIVE_INFINITY : Math.max(1, rated?.burst ?? known)
  const burst = Math.min(Math.ceil(headroom * bucket), knownBurst)
  return {
    calls_per_day: isDayTighter ? day : daily,
    ...(isRateTighter
      ? { rate_per_sec: rate, burst }
      : { rate_per_sec: known, ...defined({ burst: rated?.burst }) }),
  }
}

/** Two digits, so that the limit does not look more exact than it is. */
function roundedUp(rate: number): number {
  const unit = 10 ** (Math.floor(Math.log10(rate)) - 1)
  return Number((Math.ceil(rate / unit - 1e-9) * unit).toPrecision(2))
}
