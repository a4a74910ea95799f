// The whole section, compiled: from who is calling to what they may use.
import type { Identity } from '@svc/core'
import type { EntitlementsConfig, PlanConfig, PrincipalConfig, TenantConfig } from './config.js'
import { Entitlement } from './entitlement.js'
import {
  compiledParts,
  compileList,
  type Grant,
  type PrincipalSection,
  principalGrant,
  withoutAllowlist,
} from './grant.js'
import { type UnitLimits, unitsOf } from './limits.js'

type Caller = Omit<Identity, 'tenant' | 'authenticated'>

export class Tenants {
  #listed: ReadonlyMap<string, TenantRules>
  #others: Entitlement

  constructor(config: EntitlementsConfig) {
    const plans = new Map(Object.entries(config.plans))
    this.#listed = new Map(
      Object.entries(config.tenants).map(([tenant, rules]) => [
        tenant,
        new TenantRules(tenant, planNamed(plans, rules.plan), rules),
      ]),
    )
    const plan = planNamed(plans, config.default_plan)
    this.#others = new Entitlement(unitsOf(plan), [planGrant(config.default_plan, plan, true)])
  }

  has(tenant: string): boolean {
    return this.#listed.has(tenant)
  }

  /** `claimedNode` is what the caller says of itself in `x-node-id`. */
  entitlementOf(tenant: string, caller: Caller, claimedNode: string | null): Entitlement {
    return this.#listed.get(tenant)?.entitlementOf(caller, claimedNode) ?? this.#others
  }
}

class TenantRules {
  #plan: UnitLimits
  #whole: Entitlement
  #principals: { readonly [section in PrincipalSection]: ReadonlyMap<string, Grant> }
  #claimedNodes: ReadonlyMap<string, Grant>

  constructor(tenant: string, plan: PlanConfig, rules: TenantConfig) {
    this.#plan = unitsOf(plan)
    this.#whole = new Entitlement(this.#plan, [
      planGrant(rules.plan, plan, false),
      tenantGrant(tenant, rules),
    ])
    this.#principals = {
      users: compilePrincipals('users', rules.users),
      user_ids: compilePrincipals('user_ids', rules.user_ids),
      roles: compilePrincipals('roles', rules.roles),
      agents: compilePrincipals('agents', rules.agents),
      agent_nodes: compilePrincipals('agent_nodes', rules.agent_nodes),
    }
    this.#claimedNodes = new Map(
      [...this.#principals.agent_nodes].map(([id, grant]) => [id, withoutAllowlist(grant)]),
    )
  }

  entitlementOf(caller: Caller, claimedNode: string | null): Entitlement {
    const grants = this.#grantsOf(caller, claimedNode)
    return grants.length === 0 ? this.#whole : new Entitlement(this.#plan, [...this.#whole.grants, ...grants])
  }

  #grantsOf({ user, userId, roles, clientId, nodeId }: Caller, claimedNode: string | null): Grant[] {
    const grants: Grant[] = []
    const add = (grant: Grant | undefined) => {
      if (grant !== undefined) grants.push(grant)
    }
    const principals = this.#principals
    if (user !== undefined) add(principals.users.get(user))
    if (userId !== undefined) add(principals.user_ids.get(userId))
    if (principals.roles.size > 0) for (const role of new Set(roles)) add(principals.roles.get(role))
    // A token with a user is not a service agent's, whatever client it was issued to.
    if (user === undefined && clientId !== undefined) add(principals.agents.get(clientId))
    if (claimedNode !== null) {
      const vouchedFor = claimedNode === nodeId
      add((vouchedFor ? principals.agent_nodes : this.#claimedNodes).get(claimedNode))
    }
    // Leaving the header out, or naming another node, does not shake off what the token says.
    if (nodeId !== undefined && nodeId !== claimedNode) add(this.#claimedNodes.get(nodeId))
    return grants
  }
}

function compilePrincipals(
  section: PrincipalSection,
  principals: Readonly<Record<string, PrincipalConfig>> = {},
): ReadonlyMap<string, Grant> {
  return new Map(Object.entries(principals).map(([id, config]) => [id, principalGrant(section, id, config)]))
}

function tenantGrant(tenant: string, { allowlist, denylist, per_tool }: TenantConfig): Grant {
  const title = `tenant "${tenant}"`
  const parts = compiledParts({ allowlist, denylist, per_tool })
  return { level: 'tenant', title, name: title, keySuffix: '', ...parts }
}

/** A tenant that is listed has an allowlist of its own in place of the plan's; the plan's denylist always counts. */
function planGrant(name: string, { allowlist = [], denylist }: PlanConfig, allows: boolean): Grant {
  const title = `plan "${name}"`
  return {
    level: 'plan',
    title,
    name: title,
    keySuffix: '',
    ...(allows ? { allow: compileList(allowlist) } : {}),
    ...(denylist === undefined ? {} : { deny: compileList(denylist) }),
  }
}

function planNamed(plans: ReadonlyMap<string, PlanConfig>, name: string): PlanConfig {
  const plan = plans.get(name)
  if (plan === undefined) throw new Error(`entitlements: no plan "${name}"`)
  return plan
}
