// The limits of one call: one for the tenant, and one for each principal with its own.
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

/** The limits of one entry of the policy. Daily and rate limits are inherited separately. */
export interface ToolLimits {
  readonly day: DayLimit | undefined
  readonly rate: RateLimit | undefined
}

export const NO_LIMITS: ToolLimits = { day: undefined, rate: undefined }

export function parseLimits({ calls_per_day, rate_per_sec, burst }: ToolLimitConfig): ToolLimits {
  return {
    day: calls_per_day === undefined ? undefined : { callsPerDay: calls_per_day },
    rate:
      rate_per_sec === undefined
        ? undefined
        : { ratePerSec: rate_per_sec, ...(burst === undefined ? {} : { burst }) },
  }
}

/**
 * The tenant's limits come from the most specific `per_tool` entry, and from the plan where that entry sets none. Both
 * are counted under the reference. A principal's limit that overrides replaces both.
 */
export function limitsOf(reference: string, plan: ToolLimits, grants: readonly Grant[]): readonly Limit[] {
  const key = keyOf(reference)
  const found: Limit[] = []
  const ofPrincipals: Limit[] = []
  let tenantLimits = NO_LIMITS
  let overriding = NO_LIMITS
  for (const { level, keySuffix, perTool, overrides } of grants) {
    const limits = perTool && mostSpecificLimits(perTool, reference)
    if (limits === undefined) continue
    if (keySuffix === '') tenantLimits = limits
    else push(ofPrincipals, key + keySuffix, level, limits)
    if (overrides) overriding = firstOfEach(overriding, limits)
  }
  push(found, key, 'tenant', without(tenantLimits, overriding))
  found.push(...ofPrincipals)
  push(found, key, 'plan', without(plan, firstOfEach(tenantLimits, overriding)))
  return found
}

function firstOfEach(a: ToolLimits, b: ToolLimits): ToolLimits {
  return { day: a.day ?? b.day, rate: a.rate ?? b.rate }
}

/** The limits of which `replacing` has none. */
function without({ day, rate }: ToolLimits, replacing: ToolLimits): ToolLimits {
  return {
    day: replacing.day === undefined ? day : undefined,
    rate: replacing.rate === undefined ? rate : undefined,
  }
}

function push(found: Limit[], key: string, level: Level, { day, rate }: ToolLimits): void {
  if (day !== undefined || rate !== undefined) found.push(Object.assign({ key, level }, day, rate))
}

/** Of equally specific patterns, the lower of each limit. */
function mostSpecificLimits(perTool: PatternMap<ToolLimits>, reference: string): ToolLimits | undefined {
  const [first, ...rest] = perTool.lookup(reference)
  if (first === undefined) return undefined
  let lowest = first.value
  for (const { literals, value } of rest) {
    if (literals < first.literals) break
    lowest = lowerOfEach(lowest, value)
  }
  return lowest
}

function lowerOfEach(a: ToolLimits, b: ToolLimits): ToolLimits {
  return {
    day: lowest(a.day, b.day, ({ callsPerDay }) => [callsPerDay]),
    rate: lowest(a.rate, b.rate, ({ ratePerSec, burst = ratePerSec }) => [ratePerSec, burst]),
  }
}

/** Compares the numbers that `sortKey` returns, the most significant first. */
function lowest<T>(a: T | undefined, b: T | undefined, sortKey: (limit: T) => number[]): T | undefined {
  if (a === undefined || b === undefined) return a ?? b
  const other = sortKey(b)
  for (const [i, value] of sortKey(a).entries()) {
    const difference = (other[i] ?? 0) - value
    if (difference !== 0) return difference < 0 ? b : a
  }
  return a
}

/** Escapes `#`, which separates the principal, so that a version chosen by the caller cannot form another key. */
function keyOf(reference: string): string {
  return reference.includes('#') ? reference.replaceAll('#', '%23') : reference
}
