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

const PREFIX = 'mcp://'

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
 * The tenant's limits come from the most specific `per_tool` entry, and from the plan where that entry sets none. A
 * principal's limit that overrides replaces both. A tool is counted under its server and name, whatever version the
 * caller writes. Prompts and resources, of which a caller may name any number, are counted together: under the pattern
 * of the entry, or by their server and kind for the plan.
 */
export function limitsOf(reference: string, plan: ToolLimits, grants: readonly Grant[]): readonly Limit[] {
  const counted = countedName(reference)
  const found: Limit[] = []
  const ofPrincipals: Limit[] = []
  let tenantEntry: Entry | undefined
  let overriding = NO_LIMITS
  const keyOf = ({ pattern }: Entry) => (counted.isTool ? counted.key : escapeHash(pattern))
  for (const { level, keySuffix, perTool, overrides } of grants) {
    const entry = perTool && mostSpecific(perTool, reference)
    if (entry === undefined) continue
    if (keySuffix === '') tenantEntry = entry
    else push(ofPrincipals, keyOf(entry) + keySuffix, level, entry.limits)
    if (overrides) overriding = firstOfEach(overriding, entry.limits)
  }
  const tenantLimits = tenantEntry?.limits ?? NO_LIMITS
  if (tenantEntry !== undefined) push(found, keyOf(tenantEntry), 'tenant', without(tenantLimits, overriding))
  found.push(...ofPrincipals)
  push(found, counted.key, 'plan', without(plan, firstOfEach(tenantLimits, overriding)))
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

interface Entry {
  readonly pattern: string
  readonly limits: ToolLimits
}

/** Where several patterns are equally specific, the lower of each limit, under the first pattern. */
function mostSpecific(perTool: PatternMap<ToolLimits>, reference: string): Entry | undefined {
  const [first, ...rest] = perTool.lookup(reference)
  if (first === undefined) return undefined
  let limits = first.value
  for (const { literals, value } of rest) {
    if (literals < first.literals) break
    limits = limits === undefined ? value : lowerOfEach(limits, value)
  }
  return { pattern: first.pattern, limits }
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

/** Escapes `#`, which separates the principal, so that a name chosen by the caller cannot form another key. */
function escapeHash(text: string): string {
  return text.includes('#') ? text.replaceAll('#', '%23') : text
}
