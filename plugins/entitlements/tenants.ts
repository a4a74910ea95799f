// The compiled section: finds the entitlement of a caller.
import type { Identity } from '@svc/core'
import type { EntitlementsConfig, ParsedPlan, PrincipalConfig, TenantConfig } from './config.js'
import {
  compiledParts,
  Entitlement,
  type Grant,
  openGrant,
  type PrincipalSection,
  principalGrant,
  restrictionsOf,
} from './entitlement.js'
import { NO_LIMITS, parseLimits, type ToolLimits } from './limits.js'

type Caller = Omit<Identity, 'tenant' | 'authenticated'>

export class Tenants {
  #listed: ReadonlyMap<string, TenantRules>
  #unlisted: Entitlement

  /** False for open and for missing entitlements. */
  readonly hasPlans: boolean

  constructor(config: EntitlementsConfig | 'open' | 'none') {
    this.hasPlans = typeof config !== 'string'
    if (typeof config === 'string') {
      this.#listed = new Map()
      this.#unlisted = new Entitlement(NO_LIMITS, config === 'open' ? [openGrant] : [])
      return
    }
    const plans = new Map(Object.entries(config.plans))
    this.#listed = new Map(
      Object.entries(config.tenants).map(([tenant, rules]) => [
        tenant,
        new TenantRules(tenant, findPlan(plans, rules.plan), rules),
      ]),
    )
    const plan = findPlan(plans, config.default_plan)
    this.#unlisted = new Entitlement(parseLimits(plan), [planGrant(config.default_plan, plan, true)])
  }

  has(tenant: string): boolean {
    return this.#listed.has(tenant)
  }

  /** `claimedNode` is the unverified header `x-node-id`. */
  entitlementOf(tenant: string, caller: Caller, claimedNode: string | null): Entitlement {
    return this.#listed.get(tenant)?.entitlementOf(caller, claimedNode) ?? this.#unlisted
  }
}

class TenantRules {
  #combined: CombinedGrants
  #principals: { readonly [section in PrincipalSection]: ReadonlyMap<string, Grant> }
  #claimedNodes: ReadonlyMap<string, Grant>

  constructor(tenant: string, plan: ParsedPlan, rules: TenantConfig) {
    this.#combined = new CombinedGrants(parseLimits(plan), [
      planGrant(rules.plan, plan, false),
      tenantGrant(tenant, rules),
    ])
    this.#principals = {
      users: compilePrincipals(tenant, 'users', rules.users),
      user_ids: compilePrincipals(tenant, 'user_ids', rules.user_ids),
      roles: compilePrincipals(tenant, 'roles', rules.roles),
      agents: compilePrincipals(tenant, 'agents', rules.agents),
      agent_nodes: compilePrincipals(tenant, 'agent_nodes', rules.agent_nodes),
    }
    this.#claimedNodes = new Map(
      [...this.#principals.agent_nodes].map(([id, grant]) => [id, restrictionsOf(grant)]),
    )
  }

  entitlementOf(caller: Caller, claimedNode: string | null): Entitlement {
    return this.#combined.of(this.#grantsOf(caller, claimedNode))
  }

  /** Reads of the caller only what a section needs, as the record of a call may lack the rest. */
  #grantsOf(caller: Caller, claimedNode: string | null): Grant[] {
    const { users, user_ids, roles, agents, agent_nodes } = this.#principals
    const grants: Grant[] = []
    const add = (grant: Grant | undefined) => {
      if (grant !== undefined) grants.push(grant)
    }
    if (users.size > 0 && caller.user !== undefined) add(users.get(caller.user))
    if (user_ids.size > 0 && caller.userId !== undefined) add(user_ids.get(caller.userId))
    if (roles.size > 0) for (const role of new Set(caller.roles)) add(roles.get(role))
    // A token with a user does not name a service agent, even though it has a client id.
    if (agents.size > 0 && caller.user === undefined && caller.clientId !== undefined) {
      add(agents.get(caller.clientId))
    }
    if (agent_nodes.size === 0) return grants
    const { nodeId } = caller
    if (claimedNode !== null) {
      const isVerified = claimedNode === nodeId
      add((isVerified ? agent_nodes : this.#claimedNodes).get(claimedNode))
    }
    // The restrictions of the token's node apply even if the header is missing or names another node.
    if (nodeId !== undefined && nodeId !== claimedNode) {
      const isNarrowed = agent_nodes.get(nodeId)?.overrides === true
      add((isNarrowed ? agent_nodes : this.#claimedNodes).get(nodeId))
    }
    return grants
  }
}

function compilePrincipals(
  tenant: string,
  section: PrincipalSection,
  principals: Readonly<Record<string, PrincipalConfig>> = {},
): ReadonlyMap<string, Grant> {
  return new Map(
    Object.entries(principals).map(([id, config]) => [id, principalGrant(tenant, section, id, config)]),
  )
}

function tenantGrant(tenant: string, rules: TenantConfig): Grant {
  const title = `tenant "${tenant}"`
  const path = ['entitlements', 'tenants', tenant]
  return { level: 'tenant', path, title, name: title, keySuffix: '', ...compiledParts(rules) }
}

/** A listed tenant's allowlist replaces the plan's; the plan's denylist always applies. */
function planGrant(name: string, { allowlist = [], denylist }: ParsedPlan, hasAllowlist: boolean): Grant {
  const title = `plan "${name}"`
  const parts = compiledParts({ denylist, ...(hasAllowlist ? { allowlist } : {}) })
  return { level: 'plan', path: ['entitlements', 'plans', name], title, name: title, keySuffix: '', ...parts }
}

function findPlan(plans: ReadonlyMap<string, ParsedPlan>, name: string): ParsedPlan {
  const plan = plans.get(name)
  if (plan === undefined) throw new Error(`entitlements: no plan "${name}"`)
  return plan
}

/** Maximum number of entitlements; each caches decisions about references. */
const MAX_ENTITLEMENTS = 256

/** A combination of grants, and the combinations that begin with it. */
interface Combination {
  readonly longer: Map<Grant, Combination>
  entitlement: Entitlement | undefined
}

/** The entitlements of a tenant's callers: one for each combination of principals with grants of their own. */
class CombinedGrants {
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
