// What one caller may use: the combined grants of its plan, tenant and principals. Deny takes precedence.
import type { Finding, Limit, ReferenceRule, RequestKind } from '@svc/core'
import { parseNameSegment } from '@svc/core/match'
import { foldCase } from './fold-case.js'
import type { Grant } from './grant.js'
import { limitsOf, type ToolLimits } from './limits.js'

const PREFIX = 'mcp://'

export class Entitlement {
  readonly grants: readonly Grant[]
  /** For `call.addReferenceRule`, and for the call's own reference. */
  readonly rule: ReferenceRule = (reference, kind) => this.#check(reference, kind)
  readonly #plan: ToolLimits
  /** The grants whose allowlists apply. */
  readonly allowing: readonly Grant[]

  /** `plan` has the limits that apply where no grant sets one. */
  constructor(plan: ToolLimits, grants: readonly Grant[]) {
    this.#plan = plan
    this.grants = grants
    const isReplaced = grants.some(({ allow, overrides }) => allow !== undefined && overrides)
    this.allowing = grants.filter(
      ({ allow, keySuffix }) => allow !== undefined && !(isReplaced && keySuffix === ''),
    )
  }

  limitsOf(reference: string): readonly Limit[] {
    return limitsOf(reference, this.#plan, this.grants)
  }

  #check(reference: string, kind: RequestKind): Finding | undefined {
    if (kind === 'protocol') return this.#checkServer(serverOf(reference))
    const folded = foldCase(reference)
    for (const grant of this.grants) {
      if (grant.deny?.set.matches(folded)) return deniedBy(grant, reference)
    }
    for (const grant of this.allowing) {
      if (grant.allow?.set.matches(reference)) return undefined
    }
    return this.#notAllowed(reference)
  }

  /** Protocol requests are allowed to callers that may use anything on the server. */
  #checkServer(server: string): Finding | undefined {
    for (const grant of this.grants) {
      if (grant.deny?.set.coversServer(foldCase(server)))
        return deniedBy(grant, `everything on server "${server}"`)
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

function serverOf(reference: string): string {
  const end = reference.indexOf('/', PREFIX.length)
  return parseNameSegment(reference.slice(PREFIX.length, end === -1 ? undefined : end), 'server name')
}
