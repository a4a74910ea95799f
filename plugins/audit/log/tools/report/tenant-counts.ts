// Counts records by tenant and decision.

import type { SignedEnvelope } from '../../format/envelope.js'

export interface TenantCounts {
  readonly tenant: string
  readonly records: number
  readonly allowed: number
  readonly denied: number
  /** Allowed calls that failed. */
  readonly failed: number
  /** Calls that were sent and whose outcome is unknown. */
  readonly outcome_unknown: number
  /** Denied records by error code. */
  readonly denials: Readonly<Record<string, number>>
}

type Tally = { -readonly [Field in keyof TenantCounts]: TenantCounts[Field] } & {
  denials: Record<string, number>
}

export class TenantTally {
  readonly #tenants = new Map<string, Tally>()

  add({ tenant, policy, status, error }: SignedEnvelope): void {
    const tally = this.#tenants.get(tenant) ?? emptyTally(tenant)
    this.#tenants.set(tenant, tally)
    tally.records++
    if (policy.decision === 'deny') {
      tally.denied++
      const code = error ?? 'unstated'
      tally.denials[code] = (tally.denials[code] ?? 0) + 1
      return
    }
    tally.allowed++
    if (error === 'OUTCOME_UNKNOWN') tally.outcome_unknown++
    else if (status === 'error') tally.failed++
  }

  /** The counts in the order of the tenants' names. */
  counts(): TenantCounts[] {
    return [...this.#tenants.values()].sort((a, b) => (a.tenant < b.tenant ? -1 : 1))
  }
}

function emptyTally(tenant: string): Tally {
  return { tenant, records: 0, allowed: 0, denied: 0, failed: 0, outcome_unknown: 0, denials: {} }
}
