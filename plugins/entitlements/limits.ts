// Which limits apply to one use of a tool: one for the tenant, one for each principal that has its own.
import type { Limit, PatternMap } from '@svc/core'
import type { PlanConfig, ToolLimitConfig } from './config.js'
import type { Grant, Level } from './grant.js'

interface UnitLimits {
  readonly day?: { readonly callsPerDay: number }
  readonly rate?: { readonly ratePerSec: number; readonly burst?: number }
}

/**
 * The tenant's limits are the most specific `per_tool` entry's, and the plan's for what that entry leaves open; both
 * are counted under the reference.
 */
export function limitsOf(reference: string, plan: PlanConfig, grants: readonly Grant[]): readonly Limit[] {
  const key = keyOf(reference)
  const found: Limit[] = []
  let ofTenant: UnitLimits = {}
  for (const { level, keySuffix, perTool } of grants) {
    if (perTool === undefined) continue
    const limits = mostSpecific(perTool, reference)
    if (limits === undefined) continue
    if (keySuffix === '') ofTenant = limits
    push(found, key + keySuffix, level, limits)
  }
  const ofPlan = unitsOf(plan)
  push(found, key, 'plan', {
    ...(ofTenant.day === undefined && ofPlan.day !== undefined ? { day: ofPlan.day } : {}),
    ...(ofTenant.rate === undefined && ofPlan.rate !== undefined ? { rate: ofPlan.rate } : {}),
  })
  return found
}

function push(found: Limit[], key: string, level: Level, { day, rate }: UnitLimits): void {
  if (day === undefined && rate === undefined) return
  found.push({ key, level, ...day, ...rate })
}

/** Where several patterns are equally specific, the lower of each limit. */
function mostSpecific(perTool: PatternMap<ToolLimitConfig>, reference: string): UnitLimits | undefined {
  const [first, ...rest] = perTool.lookup(reference)
  if (first === undefined) return undefined
  let lowest = unitsOf(first.value)
  for (const { literals, value } of rest) {
    if (literals < first.literals) break
    lowest = lower(lowest, unitsOf(value))
  }
  return lowest
}

function unitsOf({ calls_per_day, rate_per_sec, burst }: ToolLimitConfig): UnitLimits {
  return {
    ...(calls_per_day === undefined ? {} : { day: { callsPerDay: calls_per_day } }),
    ...(rate_per_sec === undefined
      ? {}
      : { rate: { ratePerSec: rate_per_sec, ...(burst === undefined ? {} : { burst }) } }),
  }
}

function lower(a: UnitLimits, b: UnitLimits): UnitLimits {
  const day = lowest(a.day, b.day, ({ callsPerDay }) => [callsPerDay])
  const rate = lowest(a.rate, b.rate, ({ ratePerSec, burst = ratePerSec }) => [ratePerSec, burst])
  return { ...(day === undefined ? {} : { day }), ...(rate === undefined ? {} : { rate }) }
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
