// What one caller may use: the levels of the policy that speak of it, deny before allow.
import type { Finding, Limit, ReferenceRule, RequestKind } from '@svc/core'
import { parseNameSegment } from '@svc/core/match'
import type { Grant } from './grant.js'
import { limitsOf, type UnitLimits } from './limits.js'

const PREFIX = 'mcp://'

export class Entitlement {
  readonly grants: readonly Grant[]
  /** For `call.rule`, and for the call's own reference. */
  readonly rule: ReferenceRule = (reference, kind) => this.#judge(reference, kind)
  readonly #plan: UnitLimits

  /** `plan` gives the limits that no grant sets. */
  constructor(plan: UnitLimits, grants: readonly Grant[]) {
    this.#plan = plan
    this.grants = grants
  }

  limitsOf(reference: string): readonly Limit[] {
    return limitsOf(reference, this.#plan, this.grants)
  }

  #judge(reference: string, kind: RequestKind): Finding | undefined {
    if (kind === 'protocol') return this.#judgeServer(serverOf(reference))
    for (const grant of this.grants) {
      if (grant.deny?.set.matches(reference)) return denies(grant, reference)
    }
    for (const grant of this.grants) {
      if (grant.allow?.set.matches(reference)) return undefined
    }
    return this.#notAllowed(reference)
  }

  /** The open part of the protocol is for whoever may use anything on the server. */
  #judgeServer(server: string): Finding | undefined {
    for (const grant of this.grants) {
      if (grant.deny?.set.coversServer(server)) return denies(grant, `everything on server "${server}"`)
    }
    for (const grant of this.grants) {
      if (grant.allow?.set.mayMatchServer(server)) return undefined
    }
    return this.#notAllowed(`anything on server "${server}"`)
  }

  #notAllowed(what: string): Finding {
    const asked = this.grants.filter(({ allow }) => allow !== undefined)
    const who = asked.map(({ title }) => title).join(', ')
    return {
      reason: 'tool_not_in_allowlist',
      stage: 'entitlements',
      level: asked[0]?.level ?? 'plan',
      detail: `no allowlist of ${who} allows ${what}`,
    }
  }
}

function denies({ level, title }: Grant, what: string): Finding {
  return {
    reason: 'tool_in_denylist',
    stage: 'entitlements',
    level,
    detail: `the denylist of ${title} denies ${what}`,
  }
}

function serverOf(reference: string): string {
  const end = reference.indexOf('/', PREFIX.length)
  return parseNameSegment(reference.slice(PREFIX.length, end === -1 ? undefined : end), 'server name')
}
