// The rights of one caller: the combined lists and limits of its plan, tenant and principals. Deny takes precedence.
import type { CallRequest, Finding, Limit, ReferenceRule, RequestKind } from '@svc/core'
import { parseNameSegment } from '@svc/core/match'
import type { Grant, ToolLimits } from './grant.js'
import { limitsOf } from './limits.js'

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
