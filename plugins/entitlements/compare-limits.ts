// Compares the limits of two sections. Each counter belongs to the tenant or to one principal, so each map of limits is
// compared with the same one of the other section, over every region of references in which one pattern is the most
// specific before, and one after.
import { isDeepStrictEqual } from 'node:util'
import type { ChangeEffect, PolicyChange } from '@svc/core'
import { compilePattern, findReference, NotComparableError } from '@svc/core/match'
import { type Section, tenantEntries, tenantIn } from './compare-callers.js'
import {
  PRINCIPAL_SECTIONS,
  type PrincipalConfig,
  type TenantConfig,
  type ToolLimitConfig,
} from './config.js'
import { parseLimits, type ToolLimits } from './grant.js'

type PerTool = Readonly<Record<string, ToolLimitConfig>>

interface LimitMap {
  readonly perTool: PerTool
  /** The limit that applies if the map has none. */
  readonly fallback: ToolLimits
  readonly overrides: boolean
}

interface ComparedLimits {
  readonly before: Section
  readonly after: Section
  readonly tenant: string
}

const NONE: ToolLimits = { day: undefined, rate: undefined }

export function limitChanges({ before, after, tenant }: ComparedLimits): PolicyChange[] {
  const [olds, nows] = [tenantEntries(before, tenant), tenantEntries(after, tenant)]
  const several = [olds, nows].some((entries) => entries.length > 1)
  if (several && !isDeepStrictEqual(olds.map(limitsOfTenant), nows.map(limitsOfTenant)))
    return [
      { effect: 'unknown', subject: 'limits', detail: 'not compared: several entries apply to the tenant' },
    ]
  const [old, now] = [tenantIn(before, tenant), tenantIn(after, tenant)]
  const changes = compareMaps('', baseOf(before, tenant), baseOf(after, tenant))
  for (const section of PRINCIPAL_SECTIONS) {
    const [olds, nows] = [old?.[section] ?? {}, now?.[section] ?? {}]
    const ids = [...new Set([...Object.keys(olds), ...Object.keys(nows)])]
    const whose = section.replace(/s$/, '').replace('_', ' ')
    // A limit of one key replaces that of another one, so that each by itself says nothing.
    if (ids.some((id) => id.includes('*')) && !isDeepStrictEqual(limitsOfAll(olds), limitsOfAll(nows))) {
      const detail = 'not compared: patterns of names set them'
      changes.push({ effect: 'unknown', subject: `limits per ${whose}`, detail })
      continue
    }
    for (const id of ids) {
      changes.push(...compareMaps(` per ${whose} ${id}`, mapOf(olds[id]), mapOf(nows[id])))
    }
  }
  return changes
}

function limitsOfTenant(tenant: TenantConfig): object {
  return { ...tenant, allowlist: [], denylist: [] }
}

function limitsOfAll(principals: Readonly<Record<string, PrincipalConfig>>): object {
  return Object.entries(principals).map(([id, { per_tool = {}, override = false }]) => [
    id,
    per_tool,
    override,
  ])
}

function baseOf(section: Section, tenant: string): LimitMap {
  if (typeof section === 'string') return mapOf(undefined)
  const own = tenantIn(section, tenant)
  const plan = section.plans[own?.plan ?? section.default_plan]
  return {
    perTool: own?.per_tool ?? {},
    fallback: plan === undefined ? NONE : parseLimits(plan),
    overrides: false,
  }
}

function mapOf(
  principal: { readonly per_tool?: PerTool | undefined; readonly override?: boolean | undefined } | undefined,
): LimitMap {
  return { perTool: principal?.per_tool ?? {}, fallback: NONE, overrides: principal?.override === true }
}

/** Whether the pattern limits no names but those that are spelled as it is. */
export function hasOneSpelling(pattern: string): boolean {
  return /^[\x21-\x7e]+$/.test(pattern) && !/[A-Z]|(?:^|[/@])\.|\.(?:$|[/@])/.test(pattern)
}

function compareMaps(whose: string, before: LimitMap, after: LimitMap): PolicyChange[] {
  if (isDeepStrictEqual(before, after)) return []
  const unknown = (message: string): PolicyChange[] => [
    { effect: 'unknown', subject: `limits${whose}`, detail: `not compared: ${message}` },
  ]
  const patterns = [...Object.keys(before.perTool), ...Object.keys(after.perTool)]
  const unstable = patterns.find((pattern) => !hasOneSpelling(pattern))
  if (unstable !== undefined) return unknown(`"${unstable}" also limits names of other spellings`)
  try {
    const tie = tieIn(before.perTool) ?? tieIn(after.perTool)
    if (tie !== undefined) return unknown(`${tie} are equally specific`)
    const override: PolicyChange = {
      effect: after.overrides ? 'wider' : 'narrower',
      subject: `limits${whose}`,
      detail: after.overrides ? "replace the tenant's" : "no longer replace the tenant's",
    }
    return [
      ...(before.overrides === after.overrides || patterns.length === 0 ? [] : [override]),
      ...regionsOf(before, after).map((region) => changeIn(region, whose, before, after)),
    ]
  } catch (error) {
    if (!(error instanceof NotComparableError)) throw error
    return unknown(error.message)
  }
}

/** A pattern of each map, or none. */
interface Region {
  readonly old: string | undefined
  readonly now: string | undefined
}

/** The regions in which the limits can differ, and that some reference is in. */
function regionsOf(before: LimitMap, after: LimitMap): Region[] {
  const [olds, nows] = [
    [...Object.keys(before.perTool), undefined],
    [...Object.keys(after.perTool), undefined],
  ]
  const pairs = olds.flatMap((old) => nows.map((now) => ({ old, now })))
  return pairs.filter(({ old, now }) => {
    // If the most specific pattern is another one, either the old one is gone or the new one is added.
    const isPossible =
      old === now ||
      (old !== undefined && !Object.hasOwn(after.perTool, old)) ||
      (now !== undefined && !Object.hasOwn(before.perTool, now))
    if (!isPossible) return false
    const inside = [old, now === old ? undefined : now].flatMap((pattern) =>
      pattern === undefined ? [] : { patterns: [pattern] },
    )
    const outside = [moreSpecific(before.perTool, old), moreSpecific(after.perTool, now)].map((list) => ({
      patterns: list,
    }))
    if (!isDeepStrictEqual(limitsIn(before, old), limitsIn(after, now)))
      return findReference({ inside, outside }) !== undefined
    // Prompts and resources are counted under the pattern, so another pattern means another counter.
    return (
      old !== now &&
      findReference({ inside: [...inside, { patterns: ['*/prompts/*', '*/resources/*'] }], outside }) !==
        undefined
    )
  })
}

function limitsIn({ perTool, fallback }: LimitMap, pattern: string | undefined): ToolLimits {
  const entry = pattern === undefined ? undefined : perTool[pattern]
  const own = entry === undefined ? NONE : parseLimits(entry)
  return { day: own.day ?? fallback.day, rate: own.rate ?? fallback.rate }
}

function moreSpecific(perTool: PerTool, pattern: string | undefined): string[] {
  const literals = pattern === undefined ? -1 : compilePattern(pattern).literals
  return Object.keys(perTool).filter((other) => compilePattern(other).literals > literals)
}

/** Two patterns of which neither is more specific, that limit one reference differently. */
function tieIn(perTool: PerTool): string | undefined {
  const entries = Object.entries(perTool).map(([pattern, limits]) => ({
    pattern,
    limits,
    literals: compilePattern(pattern).literals,
  }))
  for (const [index, a] of entries.entries()) {
    for (const b of entries.slice(index + 1)) {
      if (a.literals !== b.literals || isDeepStrictEqual(a.limits, b.limits)) continue
      const inside = [{ patterns: [a.pattern] }, { patterns: [b.pattern] }]
      if (findReference({ inside, outside: [] }) !== undefined) return `"${a.pattern}" and "${b.pattern}"`
    }
  }
  return undefined
}

function changeIn({ old, now }: Region, whose: string, before: LimitMap, after: LimitMap): PolicyChange {
  const [was, is] = [limitsIn(before, old), limitsIn(after, now)]
  const subject = now ?? old ?? 'every tool'
  if (isDeepStrictEqual(was, is))
    return { effect: 'wider', subject, detail: `prompts and resources are counted apart${whose}` }
  const effect = effectOfLimits(was, is, before.overrides || after.overrides)
  return { effect, subject, detail: `${describe(was)} -> ${describe(is)}${whose}` }
}

/** A limit of a principal that overrides replaces the tenant's of its kind: a kind more may be wider too. */
function effectOfLimits(was: ToolLimits, is: ToolLimits, overrides: boolean): ChangeEffect {
  const isKindAdded =
    (was.day === undefined && is.day !== undefined) || (was.rate === undefined && is.rate !== undefined)
  if (overrides && isKindAdded) return 'wider'
  return atMost(dayOf(is), dayOf(was)) && atMost(rateOf(is), rateOf(was)) && atMost(burstOf(is), burstOf(was))
    ? 'narrower'
    : 'wider'
}

const atMost = (a: number, b: number) => a <= b
const dayOf = ({ day }: ToolLimits) => day?.callsPerDay ?? Number.POSITIVE_INFINITY
const rateOf = ({ rate }: ToolLimits) => rate?.ratePerSec ?? Number.POSITIVE_INFINITY

function burstOf({ rate }: ToolLimits): number {
  return rate === undefined ? Number.POSITIVE_INFINITY : (rate.burst ?? Math.max(1, rate.ratePerSec))
}

function describe({ day, rate }: ToolLimits): string {
  const parts = [
    ...(rate === undefined
      ? []
      : [`${rate.ratePerSec}/s${rate.burst === undefined ? '' : ` (${rate.burst} at once)`}`]),
    ...(day === undefined ? [] : [`${day.callsPerDay}/day`]),
  ]
  return parts.length === 0 ? 'no limit' : parts.join(', ')
}
