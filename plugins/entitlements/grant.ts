// The lists and limits of one level of the policy: a plan, a tenant, or a principal of a tenant.
import { compilePatternMap, compilePatternSet, type PatternMap, type PatternSet } from '@svc/core/match'
import type { PrincipalConfig, ToolLimitConfig } from './config.js'
import { parseLimits, type ToolLimits } from './limits.js'

export type Level = 'plan' | 'tenant' | 'user' | 'role' | 'agent' | 'node'

/** A compiled list, with its patterns as configured for explanations. */
export interface PatternList {
  readonly sources: readonly string[]
  readonly set: PatternSet
}

export interface Grant {
  readonly level: Level
  /** For callers and records: contains no user, role or node name. */
  readonly title: string
  /** For operators: contains the principal's name. */
  readonly name: string
  /** Suffix of the quota key after the reference: empty for a tenant, `#<kind>:<id>` for a principal. */
  readonly keySuffix: string
  /** Absent: this level allows nothing. */
  readonly allow?: PatternList
  readonly deny?: PatternList
  readonly perTool?: PatternMap<ToolLimits>
  /** The allowlist and the limits replace those of the tenant and the plan. */
  readonly overrides?: boolean
}

/** Every tool, to every tenant. */
export const openGrant: Grant = {
  level: 'plan',
  title: 'open entitlements',
  name: 'open entitlements',
  keySuffix: '',
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

export function principalGrant(section: PrincipalSection, id: string, config: PrincipalConfig): Grant {
  const { level, kind, title } = principalKinds[section]
  return {
    level,
    title,
    name: `${kind} "${id}"`,
    keySuffix: `#${kind}:${id}`,
    ...compiledParts(config),
    ...(config.override === true ? { overrides: true } : {}),
  }
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

/** The grant of an unverified principal: it restricts, but allows nothing. */
export function restrictionsOf({ allow: _allow, overrides: _overrides, ...rest }: Grant): Grant {
  return rest
}
