// The entitlements of a tenant's callers: one for each combination of principals with grants of their own.
import { Entitlement } from './entitlement.js'
import type { Grant } from './grant.js'
import type { ToolLimits } from './limits.js'

/** Each remembers decisions about references. */
const MAX_ENTITLEMENTS = 256

/** A combination of grants, and those that begin with it. */
interface Combination {
  readonly longer: Map<Grant, Combination>
  entitlement: Entitlement | undefined
}

export class CombinedGrants {
  readonly #plan: ToolLimits
  readonly #ofAll: readonly Grant[]
  #none: Combination = { longer: new Map(), entitlement: undefined }
  #entitlements = 0

  /** `ofAll` apply to every caller. */
  constructor(plan: ToolLimits, ofAll: readonly Grant[]) {
    this.#plan = plan
    this.#ofAll = ofAll
  }

  /** The entitlement of a caller with these grants of its own. */
  of(grants: readonly Grant[]): Entitlement {
    let combination = this.#none
    for (const grant of grants) combination = longerBy(combination, grant)
    combination.entitlement ??= this.#create(grants)
    return combination.entitlement
  }

  #create(grants: readonly Grant[]): Entitlement {
    if (this.#entitlements >= MAX_ENTITLEMENTS) {
      this.#none = { longer: new Map(), entitlement: undefined }
      this.#entitlements = 0
    }
    this.#entitlements++
    return new Entitlement(this.#plan, [...this.#ofAll, ...grants])
  }
}

function longerBy({ longer }: Combination, grant: Grant): Combination {
  let found = longer.get(grant)
  if (found === undefined) {
    found = { longer: new Map(), entitlement: undefined }
    longer.set(grant, found)
  }
  return found
}
