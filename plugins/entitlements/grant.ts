// The lists and limits that one level of the policy gives: a plan, a tenant, or a principal of a tenant.
import { defined } from '@svc/core/json'
import {
  compilePatternMap,
  compilePatternSet,
  type PatternMap,
  type PatternSet,
  specificityOf,
} from '@svc/core/match'
import type { PrincipalConfig, ToolLimitConfig } from './config.js'

export interface DayLimit {
  readonly callsPerDay: number
}

export interface RateLimit {
  readonly ratePerSec: number
  readonly burst?: number
}

/** The limits of one entry of the policy. Daily and rate limits are inherited separately. */
export interface ToolLimits {
  readonly day: DayLimit | undefined
  readonly rate: RateLimit | undefined
}

export function parseLimits({ calls_per_day, rate_per_sec, burst }: ToolLimitConfig): ToolLimits {
  return {
    day: calls_per_day === undefined ? undefined : { callsPerDay: calls_per_day },
    rate: rate_per_sec === undefined ? undefined : { ratePerSec: rate_per_sec, ...defined({ burst }) },
  }
}

export type Level = 'plan' | 'tenant' | 'user' | 'role' | 'agent' | 'node'

/** A compiled list, with its patterns as configured for explanations. */
export interface PatternList {
  readonly sources: readonly string[]
  readonly set: PatternSet
}

export interface Grant {
  readonly level: Level
  /** From the policy's root; empty for open entitlements. */
  readonly path: readonly string[]
  /** The name for callers and records; contains no user, role or node name. */
  readonly title: string
  /** The name for operators; contains the principal's name. */
  readonly name: string
  /** Suffix of the quota key after the reference: empty for a tenant, `#<kind>:<id>` for a principal. */
  readonly keySuffix: string
  /** Absent: this level allows nothing. */
  readonly allow?: PatternList
  readonly deny?: PatternList
  readonly perTool?: PatternMap<ToolLimits>
  /** The allowlist and the limits replace those of the tenant and the plan. */
  readonly overrides?: boolean
  /** That of its key in the policy: of grants with one `keySuffix`, the most specific one sets each limit. */
  readonly specificity: number
  /** Its key matches the name of the caller only folded, so that its limits never replace others. */
  readonly isFolded?: boolean
}

/** The entitlement that allows every tool to every tenant. */
export const openGrant: Grant = {
  level: 'plan',
  path: [],
  title: 'open entitlements',
  name: 'open entitlements',
  keySuffix: '',
  specificity: 0,
  allow: compileList(['*']),
}

/** A tenant's principal sections, with their names in quota keys and messages. */
const principalKinds = {
  users: { level: 'user', kind: 'user', title: 'the user' },
  user_ids: { level: 'user', kind: 'user_id', title: 'the user id' },
  roles: { level: 'role', kind: 'role', title: 'a role of the caller' },
  agents: { level: 'agent', kind: 'agent', title: 'the agent' },
  agent_nodes: { level: 'node', kind: 'node', title: 'the node' },
} as const satisfies Record<string, { level: Level; kind: string; title: string }>

export type PrincipalSection = keyof typeof principalKinds

function compileList(sources: readonly string[]): PatternList {
  return { sources, set: compilePatternSet(sources) }
}

export function principalGrant(
  tenant: string,
  section: PrincipalSection,
  id: string,
  config: PrincipalConfig,
): Grant {
  const { level, kind, title } = principalKinds[section]
  return {
    level,
    path: ['entitlements', 'tenants', tenant, section, id],
    title,
    name: `${kind} "${id}"`,
    keySuffix: keySuffixOf(section, id),
    specificity: specificityOf(id),
    ...compiledParts(config),
    ...(config.override === true ? { overrides: true } : {}),
  }
}

export function keySuffixOf(section: PrincipalSection, name: string): string {
  return `#${principalKinds[section].kind}:${name}`
}

export function compiledParts({ allowlist, denylist, per_tool }: PrincipalConfig): Partial<Grant> {
  return {
    ...(allowlist === undefined ? {} : { allow: compileList(allowlist) }),
    ...(denylist === undefined ? {} : { deny: compileList(denylist) }),
    ...(per_tool === undefined ? {} : { perTool: compileLimits(per_tool) }),
  }
}

function compileLimits(perTool: Readonly<Record<string, ToolLimitConfig>>): PatternMap<ToolLimits> {
  const entries = Object.entries(perTool).map(([source, limit]) => [source, parseLimits(limit)] as const)
  return compilePatternMap(Object.fromEntries(entries))
}

/** The part of a grant that restricts: it allows nothing, and replaces nothing. */
export function restrictionsOf({ allow: _allow, overrides: _overrides, ...rest }: Grant): Grant {
  return rest
}
