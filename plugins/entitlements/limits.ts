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

const PREFIX = 'mcp://'

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
 * The tenant's limits are the most specific `per_tool` entry's, and the plan's for what that entry leaves open. A tool is
 * counted under its server and name, whatever version the caller writes. Prompts and resources, of which a caller may
 * name any number, are counted together: under the pattern of the entry, or by their server and kind for the plan.
 */
export function limitsOf(reference: string, plan: UnitLimits, grants: readonly Grant[]): readonly Limit[] {
  const counted = countedName(reference)
  const found: Limit[] = []
  let ofTenant = NO_LIMITS
  for (const { level, keySuffix, perTool } of grants) {
    if (perTool === undefined) continue
    const entry = mostSpecific(perTool, reference)
    if (entry === undefined) continue
    const { pattern, limits } = entry
    if (keySuffix === '') ofTenant = limits
    const key = counted.isTool ? counted.key : escapeHash(pattern)
    push(found, key + keySuffix, level, limits.day, limits.rate)
  }
  const day = ofTenant.day === undefined ? plan.day : undefined
  const rate = ofTenant.rate === undefined ? plan.rate : undefined
  push(found, counted.key, 'plan', day, rate)
  return found
}

function push(found: Limit[], key: string, level: Level, day?: DayLimit, rate?: RateLimit): void {
  if (day !== undefined || rate !== undefined) found.push(Object.assign({ key, level }, day, rate))
}

interface Entry {
  readonly pattern: string
  readonly limits: UnitLimits
}

/** Where several patterns are equally specific, the lower of each limit, under the first pattern. */
function mostSpecific(perTool: PatternMap<UnitLimits>, reference: string): Entry | undefined {
  const [first, ...rest] = perTool.lookup(reference)
  if (first === undefined) return undefined
  let limits = first.value
  for (const { literals, value } of rest) {
    if (literals < first.literals) break
    limits = lower(limits, value)
  }
  return { pattern: first.pattern, limits }
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

/** `mcp://server/tool`; for a prompt or a resource `mcp://server/prompts/*` or `mcp://server/resources/*`. */
function countedName(reference: string): { readonly key: string; readonly isTool: boolean } {
  // In a canonical reference the one "@" precedes the version, and names hold no "/".
  const name = reference.slice(0, reference.lastIndexOf('@'))
  const slash = name.indexOf('/', PREFIX.length)
  const nextSlash = name.indexOf('/', slash + 1)
  return nextSlash === -1
    ? { key: escapeHash(name), isTool: true }
    : { key: `${escapeHash(name.slice(0, nextSlash))}/*`, isTool: false }
}

// `#` begins the principal in a key. A caller may choose a name, and must not choose somebody's key with it.
function escapeHash(text: string): string {
  return text.includes('#') ? text.replaceAll('#', '%23') : text
}
