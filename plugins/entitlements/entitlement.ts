// The rights of one caller: the combined lists and limits of its plan, tenant and principals. Deny takes precedence.
import type { CallRequest, Finding, Limit, ReferenceRule, RequestKind } from '@svc/core'
import {
  compilePatternMap,
  compilePatternSet,
  type PatternMap,
  type PatternSet,
  parseNameSegment,
  specificityOf,
} from '@svc/core/match'
import type { PrincipalConfig, ToolLimitConfig } from './config.js'
import { limitsOf, parseLimits, type ToolLimits } from './limits.js'

const PREFIX = 'mcp://'
const NONE: readonly Limit[] = []

// Callers choose references, so the cache of decisions is bounded: 64 KiB of references.
const MAX_DECISIONS = 256
const MAX_REMEMBERED_LENGTH = 256

/** The decision about a call, and its limits. */
interface Decision {
  /** Undefined if the call is allowed. */
  readonly finding: Finding | undefined
  readonly limits: readonly Limit[]
  /** The pattern that decides, if it is one. */
  readonly pattern: string | undefined
}

export class Entitlement {
  readonly grants: readonly Grant[]
  /** The rule for `call.addReferenceRule`. */
  readonly rule: ReferenceRule = (reference, kind, shownBy) => this.#check([reference], kind, shownBy)
  readonly #plan: ToolLimits
  /** The grants whose allowlists apply. */
  readonly allowing: readonly Grant[]
  readonly #decisions = new Map<string, Decision>()

  /** `plan` has the limits that apply if no grant sets one. */
  constructor(plan: ToolLimits, grants: readonly Grant[]) {
    this.#plan = plan
    this.grants = grants
    const isReplaced = grants.some(({ allow, overrides }) => allow !== undefined && overrides)
    this.allowing = grants.filter(
      ({ allow, keySuffix }) => allow !== undefined && !(isReplaced && keySuffix === ''),
    )
  }

  /** The result is cached, as callers repeat their calls. A reload of the policy makes new entitlements. */
  decisionOn({
    reference,
    readings,
    kind,
    shownBy,
  }: Pick<CallRequest, 'reference' | 'readings' | 'kind' | 'shownBy'>): Decision {
    // Over MCP the same reference may have no other readings.
    const isRemembered = readings.length === 1 && shownBy === undefined
    const known = isRemembered ? this.#decisions.get(reference) : undefined
    if (known !== undefined) return known
    const finding = this.#check(readings, kind, shownBy)
    const decision = {
      finding,
      pattern: kind === 'protocol' ? undefined : this.#patternFor(finding, readings),
      limits: kind === 'protocol' ? NONE : limitsOf(readings, this.#plan, this.grants),
    }
    if (!isRemembered || reference.length > MAX_REMEMBERED_LENGTH) return decision
    if (this.#decisions.size >= MAX_DECISIONS) this.#decisions.clear()
    this.#decisions.set(reference, decision)
    return decision
  }

  #check(
    readings: readonly string[],
    kind: RequestKind,
    shownBy: readonly string[] = [],
  ): Finding | undefined {
    const [reference = ''] = readings
    if (kind === 'protocol') return this.#checkServer(serverOf(reference))
    for (const grant of this.grants) {
      const denied = grant.deny?.set.findReading(readings)
      if (denied !== undefined) return deniedBy(grant, describeReading(denied, reference))
    }
    if (shownBy.some((tool) => this.#check([tool], 'tool') === undefined)) return undefined
    for (const reading of readings) {
      if (!this.allowing.some(({ allow }) => allow?.set.matches(reading)))
        return this.#notAllowed(describeReading(reading, reference))
    }
    return undefined
  }

  #patternFor(finding: Finding | undefined, readings: readonly string[]): string | undefined {
    const lists =
      finding === undefined
        ? this.allowing.map(({ allow }) => allow)
        : finding.reason === 'tool_in_denylist'
          ? this.grants.map(({ deny }) => deny)
          : []
    for (const list of lists) {
      const pattern = list?.set.findPattern(readings)
      if (pattern !== undefined) return pattern
    }
    return undefined
  }

  /** Protocol requests are allowed to callers that may use anything on the server. */
  #checkServer(server: string): Finding | undefined {
    for (const grant of this.grants) {
      if (grant.deny?.set.coversServer(server)) return deniedBy(grant, `everything on server "${server}"`)
    }
    for (const grant of this.allowing) {
      if (grant.allow?.set.mayMatchServer(server)) return undefined
    }
    return this.#notAllowed(`anything on server "${server}"`)
  }

  #notAllowed(subject: string): Finding {
    const titles = this.allowing.map(({ title }) => title).join(', ')
    return {
      reason: 'tool_not_in_allowlist',
      stage: 'entitlements',
      level: this.allowing[0]?.level ?? 'plan',
      detail:
        titles === ''
          ? `the policy has no entitlements section, so nothing allows ${subject}`
          : `no allowlist of ${titles} allows ${subject}`,
    }
  }
}

function deniedBy({ level, title }: Grant, subject: string): Finding {
  return {
    reason: 'tool_in_denylist',
    stage: 'entitlements',
    level,
    detail: `the denylist of ${title} denies ${subject}`,
  }
}

/** Names the deciding name: the reference, or another reading of it. */
function describeReading(reading: string, reference: string): string {
  return reading === reference ? reference : `${reading}, as which ${reference} can be read`
}

function serverOf(reference: string): string {
  const end = reference.indexOf('/', PREFIX.length)
  return parseNameSegment(reference.slice(PREFIX.length, end === -1 ? undefined : end), 'server name')
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
