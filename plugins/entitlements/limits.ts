// Which limits apply to one use of a tool: one for the tenant, one for each principal that has its own.
import type { Limit } from '@svc/core'
import type { PatternMap } from '@svc/core/match'
import type { ToolLimitConfig } from './config.js'
import type { Grant, Level } from './grant.js'

interface DayLimit {
  readonly callsPerDay: number
}

interface RateLimit {
  readonly ratePerSec: number
  readonly burst?: number
}

/** The limits of one entry of a policy, apart, as each is counted by itself. Made at load. */
export interface UnitLimits {
  readonly day: DayLimit | undefined
  readonly rate: RateLimit | undefined
}

const NO_LIMITS: UnitLimits = { day: undefined, rate: undefined }

export function unitsOf({ calls_per_day, rate_per_sec, burst }: ToolLimitConfig): UnitLimits {
  return {
    day: calls_per_day === undefined ? undefined : { callsPerDay: calls_per_day },
    rate:
      rate_per_sec === undefined
        ? undefined
        : { ratePerSec: rate_per_sec, ...(burst === undefined ? {} : { burst }) },
  }
}

/**
 * The tenant's limits are the most specific `per_tool` entry's, and the plan's for what that entry leaves open; both
 * are counted under the reference.
 */
export function limitsOf(reference: string, plan: UnitLimits, grants: readonly Grant[]): readonly Limit[] {
  const key = keyOf(reference)
  const found: Limit[] = []
  let ofTenant = NO_LIMITS
  for (const { level, keySuffix, perTool } of grants) {
    if (perTool === undefined) continue
    const limits = mostSpecific(perTool, reference)
    if (limits === undefined) continue
    if (keySuffix === '') ofTenant = limits
    push(found, key + keySuffix, level, limits.day, limits.rate)
  }
  const day = ofTenant.day === undefined ? plan.day : undefined
  const rate = ofTenant.rate === undefined ? plan.rate : undefined
  push(found, key, 'plan', day, rate)
  return found
}

function push(found: Limit[], key: string, level: Level, day?: DayLimit, rate?: RateLimit): void {
  if (day !== undefined || rate !== undefined) found.push(Object.assign({ key, level }, day, rate))
}

/** Where several patterns are equally specific, the lower of each limit. */
function mostSpecific(perTool: PatternMap<UnitLimits>, reference: string): UnitLimits | undefined {
  const [first, ...rest] = perTool.lookup(reference)
  if (first === undefined) return undefined
  let lowest = first.value
  for (const { literals, value } of rest) {
    if (literals < first.literals) break
    lowest = lower(lowest, value)
  }
  return lowest
}

function lower(a: UnitLimits, b: UnitLimits): UnitLimits {
  return {
    day: lowest(a.day, b.day, ({ callsPerDay }) => [callsPerDay]),
    rate: lowest(a.rate, b.rate, ({ ratePerSec, burst = ratePerSec }) => [ratePerSec, burst]),
  }
}

/** `by` gives what is compared, the decisive first. */
function lowest<T>(a: T | undefined, b: T | undefined, by: (limit: T) => number[]): T | undefined {
  if (a === undefined || b === undefined) return a ?? b
  const ofB = by(b)
  for (const [i, ofA] of by(a).entries()) {
    const difference = (ofB[i] ?? 0) - ofA
    if (difference !== 0) return difference < 0 ? b : a
  }
  return a
}

// `#` begins the principal in a key. A caller may choose a version, and must not choose somebody's key with it.
function keyOf(reference: string): string {
  return reference.includes('#') ? reference.replaceAll('#', '%23') : reference
}
