// The limits of one call: one for the tenant, and one for each principal with its own.
import { isDeepStrictEqual } from 'node:util'
import type { Limit } from '@svc/core'
import { foldReference, type PatternMatches } from '@svc/core/match'
import type { DayLimit, Grant, Level, RateLimit, ToolLimits } from './grant.js'

interface CountedLimits {
  /** The key of the counter. */
  readonly key: string
  readonly level: Level
  readonly limits: ToolLimits
}

const PREFIX = 'mcp://'

export const NO_LIMITS: ToolLimits = { day: undefined, rate: undefined }

/**
 * The limits of the tenant and of each principal come from the most specific `per_tool` entry of the most specific key
 * that sets them; the plan's apply if the tenant has none. A principal's limit that overrides replaces both. A tool is counted under its server and name, folded, whatever version
 * the caller writes. Prompts and resources, of which a caller may name any number, are counted together: under the
 * pattern of the entry, or by their server and kind for the plan. All readings are counted, each under its own name.
 */
export function limitsOf(
  readings: readonly string[],
  plan: ToolLimits,
  grants: readonly Grant[],
): readonly Limit[] {
  const lists = grants.map(({ perTool }) => perTool?.lookup(readings))
  // Each reading has two lists: as it is written, and with its names folded.
  const found = readings.flatMap((reading, i) => {
    const counted = countedName(foldReference(reading))
    const spellings = lists.some((list) => list !== undefined) ? [2 * i, 2 * i + 1] : [2 * i]
    return spellings.map((at) => {
      const entries = lists.map((list) => mostSpecific(list?.[at]))
      return limitsOfOne(counted, plan, grants, entries)
    })
  })
  return strictest(found)
}

/** `entries` has the entry of each grant. */
function limitsOfOne(
  counted: Counted,
  plan: ToolLimits,
  grants: readonly Grant[],
  entries: ReadonlyArray<Entry | undefined>,
): CountedLimits[] {
  const byCounter = new Map<string, Applied[]>()
  for (const [i, grant] of grants.entries()) {
    const entry = entries[i]
    if (entry === undefined) continue
    const applied = byCounter.get(grant.keySuffix)
    if (applied === undefined) byCounter.set(grant.keySuffix, [{ ...entry, grant }])
    else applied.push({ ...entry, grant })
  }
  const ofTenant: CountedLimits[] = []
  const ofPrincipals: CountedLimits[] = []
  let overriding = NO_LIMITS
  for (const [keySuffix, applied] of byCounter) {
    for (const kind of ['day', 'rate'] as const) {
      const own = effectiveLimit(applied, kind)
      if (own === undefined) continue
      const key = (counted.isTool ? counted.key : escapeHash(own.pattern)) + keySuffix
      push(keySuffix === '' ? ofTenant : ofPrincipals, key, own.level, own.limits)
      if (own.overrides) overriding = firstOfEach(overriding, own.limits)
    }
  }
  const tenantLimits = ofTenant.reduce((all, { limits }) => firstOfEach(all, limits), NO_LIMITS)
  const found: CountedLimits[] = []
  for (const { key, level, limits } of ofTenant) push(found, key, level, without(limits, overriding))
  for (const { key, level, limits } of ofPrincipals) push(found, key, level, limits)
  push(found, counted.key, 'plan', without(plan, firstOfEach(tenantLimits, overriding)))
  return found
}

/** An entry of `per_tool`, and whose it is. */
interface Applied extends Entry {
  readonly grant: Grant
}

interface EffectiveLimit extends Entry {
  readonly level: Level
  readonly overrides: boolean
}

/**
 * The limit of one kind under one counter: that of the most specific grant which sets it, the lower if several are
 * equally specific. Grants that match the caller's name only folded lower it too.
 */
function effectiveLimit(applied: readonly Applied[], kind: keyof ToolLimits): EffectiveLimit | undefined {
  const setting = applied.filter(({ limits }) => limits[kind] !== undefined)
  const [first] = setting
  if (first === undefined) return undefined
  const { pattern, grant } = first
  const tenantOf = ({ path }: Grant) => path[2]
  const equal = setting.filter(
    (one) => one.grant.specificity === grant.specificity && tenantOf(one.grant) === tenantOf(grant),
  )
  const folded = setting.filter((one) => one.grant.isFolded === true)
  const lowest = [...equal, ...folded].reduce((all, { limits }) => lowerOfEach(all, limits), first.limits)
  return {
    pattern,
    level: grant.level,
    limits: { ...NO_LIMITS, [kind]: lowest[kind] },
    overrides: equal.every((one) => one.grant.overrides === true),
  }
}

/** All limits; of limits of one kind under one key, the lower. */
function strictest([first = [], ...others]: ReadonlyArray<readonly CountedLimits[]>): readonly Limit[] {
  if (others.every((other) => isDeepStrictEqual(other, first))) return first.map(limitOf)
  const lowest = new Map<string, CountedLimits>()
  for (const part of [first, ...others].flat().flatMap(partsOf)) {
    const counter = `${part.limits.day === undefined ? 'rate' : 'day'} ${part.key}`
    const known = lowest.get(counter)
    lowest.set(counter, known === undefined ? part : lowerOf(known, part))
  }
  return [...lowest.values()].map(limitOf)
}

/** Splits limits into a daily limit and a rate. */
function partsOf({ key, level, limits: { day, rate } }: CountedLimits): CountedLimits[] {
  return [
    ...(day === undefined ? [] : [{ key, level, limits: { ...NO_LIMITS, day } }]),
    ...(rate === undefined ? [] : [{ key, level, limits: { ...NO_LIMITS, rate } }]),
  ]
}

function lowerOf(a: CountedLimits, b: CountedLimits): CountedLimits {
  const limits = lowerOfEach(a.limits, b.limits)
  return { key: a.key, level: isDeepStrictEqual(limits, a.limits) ? a.level : b.level, limits }
}

function limitOf({ key, level, limits: { day, rate } }: CountedLimits): Limit {
  return Object.assign({ key, level }, day, rate)
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

/** A limit of the other kind under the same key joins the one before it. */
function push(found: CountedLimits[], key: string, level: Level, limits: ToolLimits): void {
  if (limits.day === undefined && limits.rate === undefined) return
  const last = found.at(-1)
  if (last?.key === key && last.level === level)
    found[found.length - 1] = { key, level, limits: firstOfEach(last.limits, limits) }
  else found.push({ key, level, limits })
}

interface Entry {
  readonly pattern: string
  readonly limits: ToolLimits
}

/** The lower of each limit if several patterns are equally specific, under the first pattern. */
function mostSpecific([first, ...rest]: PatternMatches<ToolLimits> = []): Entry | undefined {
  if (first === undefined) return undefined
  let limits = first.value
  for (const { literals, value } of rest) {
    if (literals < first.literals) break
    limits = limits === undefined ? value : lowerOfEach(limits, value)
  }
  return { pattern: first.pattern, limits }
}

function lowerOfEach(a: ToolLimits, b: ToolLimits): ToolLimits {
  return { day: lower(a.day, b.day, lowerDay), rate: lower(a.rate, b.rate, lowerRate) }
}

function lower<T>(a: T | undefined, b: T | undefined, lowerOf: (a: T, b: T) => T): T | undefined {
  return a === undefined || b === undefined ? (a ?? b) : lowerOf(a, b)
}

function lowerDay(a: DayLimit, b: DayLimit): DayLimit {
  return a.callsPerDay <= b.callsPerDay ? a : b
}

function lowerRate(a: RateLimit, b: RateLimit): RateLimit {
  const ratePerSec = Math.min(a.ratePerSec, b.ratePerSec)
  if (a.burst === undefined && b.burst === undefined) return { ratePerSec }
  return { ratePerSec, burst: Math.min(burstOf(a), burstOf(b)) }
}

/** The default is that of `burst` in the policy. */
function burstOf({ ratePerSec, burst = Math.max(1, ratePerSec) }: RateLimit): number {
  return burst
}

interface Counted {
  readonly key: string
  readonly isTool: boolean
}

/** `mcp://server/tool`; for a prompt or a resource `mcp://server/prompts/*` or `mcp://server/resources/*`. */
function countedName(reference: string): Counted {
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
