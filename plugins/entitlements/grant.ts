// What one level of a policy grants and denies: a plan, a tenant, or one of its principals.
import { compilePatternMap, compilePatternSet, type PatternMap, type PatternSet } from '@svc/core/match'
import type { PrincipalConfig, ToolLimitConfig } from './config.js'
import { type UnitLimits, unitsOf } from './limits.js'

export type Level = 'plan' | 'tenant' | 'user' | 'role' | 'agent' | 'node'

/** A list of patterns, and the patterns one by one for whoever asks which of them spoke. */
export interface PatternList {
  readonly sources: readonly string[]
  readonly set: PatternSet
}

export interface Grant {
  readonly level: Level
  /** Safe for callers and records: no user, no role, no node by name. */
  readonly title: string
  /** For the operator: the principal by name. */
  readonly name: string
  /** What follows the reference in the quota key: nothing for a tenant, `#<kind>:<id>` for a principal. */
  readonly keySuffix: string
  /** Absent: this level has no say in what is allowed. */
  readonly allow?: PatternList
  readonly deny?: PatternList
  readonly perTool?: PatternMap<UnitLimits>
}

/** Sections of a tenant's principals, and how they are called in keys and messages. */
const principalKinds = {
  users: { level: 'user', kind: 'user', title: 'the user' },
  user_ids: { level: 'user', kind: 'user_id', title: 'the user id' },
  roles: { level: 'role', kind: 'role', title: 'a role of the caller' },
  agents: { level: 'agent', kind: 'agent', title: 'the agent' },
  agent_nodes: { level: 'node', kind: 'node', title: 'the node' },
} as const satisfies Record<string, { level: Level; kind: string; title: string }>

export type PrincipalSection = keyof typeof principalKinds

export function compileList(sources: readonly string[]): PatternList {
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
  }
}

export function compiledParts({ allowlist, denylist, per_tool }: PrincipalConfig): Partial<Grant> {
  return {
    ...(allowlist === undefined ? {} : { allow: compileList(allowlist) }),
    ...(denylist === undefined ? {} : { deny: compileList(denylist) }),
    ...(per_tool === undefined ? {} : { perTool: compileLimits(per_tool) }),
  }
}

function compileLimits(perTool: Readonly<Record<string, ToolLimitConfig>>): PatternMap<UnitLimits> {
  const entries = Object.entries(perTool).map(([source, limit]) => [source, unitsOf(limit)] as const)
  return compilePatternMap(Object.fromEntries(entries))
}

/** What is left of a grant that the caller only claims: it restricts, it allows nothing. */
export function withoutAllowlist({ allow: _, ...rest }: Grant): Grant {
  return rest
}
