// What one caller may use: the combined grants of its plan, tenant and principals. Deny takes precedence.
import type { CallRequest, Finding, Limit, ReferenceRule, RequestKind } from '@svc/core'
import { parseNameSegment } from '@svc/core/match'
import type { Grant } from './grant.js'
import { limitsOf, type ToolLimits } from './limits.js'

const PREFIX = 'mcp://'
const NONE: readonly Limit[] = []

// Callers choose references, so what is remembered about them is bounded: 64 KiB of references.
const MAX_DECISIONS = 256
const MAX_REMEMBERED_LENGTH = 256

/** What applies to a call. */
export interface Decision {
  /** Undefined where the call is allowed. */
  readonly finding: Finding | undefined
  readonly limits: readonly Limit[]
}

export class Entitlement {
  readonly grants: readonly Grant[]
  /** For `call.addReferenceRule`. */
  readonly rule: ReferenceRule = (reference, kind) => this.#check([reference], kind)
  readonly #plan: ToolLimits
  /** The grants whose allowlists apply. */
  readonly allowing: readonly Grant[]
  readonly #decisions = new Map<string, Decision>()

  /** `plan` has the limits that apply where no grant sets one. */
  constructor(plan: ToolLimits, grants: readonly Grant[]) {
    this.#plan = plan
    this.grants = grants
    const isReplaced = grants.some(({ allow, overrides }) => allow !== undefined && overrides)
    this.allowing = grants.filter(
      ({ allow, keySuffix }) => allow !== undefined && !(isReplaced && keySuffix === ''),
    )
  }

  /** Remembered, as callers repeat their calls. A reload of the policy makes new entitlements. */
  decisionOn({ reference, readings, kind }: Pick<CallRequest, 'reference' | 'readings' | 'kind'>): Decision {
    // Over MCP the same reference may have no other readings.
    const isRemembered = readings.length === 1
    const known = isRemembered ? this.#decisions.get(reference) : undefined
    if (known !== undefined) return known
    const decision = {
      finding: this.#check(readings, kind),
      limits: kind === 'protocol' ? NONE : limitsOf(readings, this.#plan, this.grants),
    }
    if (!isRemembered || reference.length > MAX_REMEMBERED_LENGTH) return decision
    if (this.#decisions.size >= MAX_DECISIONS) this.#decisions.clear()
    this.#decisions.set(reference, decision)
    return decision
  }

  #check(readings: readonly string[], kind: RequestKind): Finding | undefined {
    const [reference = ''] = readings
    if (kind === 'protocol') return this.#checkServer(serverOf(reference))
    for (const grant of this.grants) {
      const denied = grant.deny?.set.findReading(readings)
      if (denied !== undefined) return deniedBy(grant, describeReading(denied, reference))
    }
    for (const reading of readings) {
      if (!this.allowing.some(({ allow }) => allow?.set.matches(reading)))
        return this.#notAllowed(describeReading(reading, reference))
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

/** Names what decides: the reference, or another reading of it. */
function describeReading(reading: string, reference: string): string {
  return reading === reference ? reference : `${reading}, as which ${reference} can be read`
}

function serverOf(reference: string): string {
  const end = reference.indexOf('/', PREFIX.length)
  return parseNameSegment(reference.slice(PREFIX.length, end === -1 ? undefined : end), 'server name')
}
