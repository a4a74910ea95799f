// The compiled section: finds the entitlement of a caller.
import type { Identity } from '@svc/core'
import { type NameMatch, NamePatterns, specificityOf } from '@svc/core/match'
import { BoundedMap } from '@svc/core/store'
import { type EntitlementsConfig, type ParsedPlan, PRINCIPAL_SECTIONS, type TenantConfig } from './config.js'
import { Entitlement } from './entitlement.js'
import {
  compiledParts,
  type Grant,
  openGrant,
  type PrincipalSection,
  parseLimits,
  restrictionsOf,
  type ToolLimits,
} from './grant.js'
import { NO_LIMITS } from './limits.js'
import { JoinedPrincipals, type NamedGrants, Principals } from './principals.js'

type Caller = Omit<Identity, 'tenant' | 'authenticated'>

/** Tenants whose rules are cached; a token may name any. */
const MAX_TENANTS = 1024

/** Maximum number of entitlements; each caches decisions about references. */
const MAX_ENTITLEMENTS = 256

export class Tenants {
  readonly #names: NamePatterns
  readonly #entries: ReadonlyMap<string, TenantEntry>
  readonly #unlisted: PlanBase
  readonly #unlistedRules: TenantRules
  readonly #byCaller = new BoundedMap<Caller, { readonly tenant: string; readonly entitlement: Entitlement }>(
    MAX_ENTITLEMENTS,
  )
  readonly #byTenant = new BoundedMap<string, TenantRules>(MAX_TENANTS)
  /** By the keys that match a tenant: tenants to which the same entries apply share their rules. */
  readonly #byKeys = new BoundedMap<string, TenantRules>(MAX_TENANTS)

  /** False for open and for missing entitlements. */
  readonly hasPlans: boolean

  constructor(config: EntitlementsConfig | 'open' | 'none') {
    this.hasPlans = typeof config !== 'string'
    if (typeof config === 'string') {
      this.#entries = new Map()
      this.#unlisted = { limits: NO_LIMITS, grants: config === 'open' ? [openGrant] : [] }
    } else {
      const plans = new Map(Object.entries(config.plans))
      this.#entries = new Map(
        Object.entries(config.tenants).map(([key, rules]) => [key, compileTenant(key, rules, plans)]),
      )
      const plan = findPlan(plans, config.default_plan)
      this.#unlisted = { limits: parseLimits(plan), grants: [planGrant(config.default_plan, plan, true)] }
    }
    this.#names = new NamePatterns([...this.#entries.keys()])
    this.#unlistedRules = new TenantRules(this.#unlisted, [])
  }

  has(tenant: string): boolean {
    return this.#names.match(tenant).some(({ isWritten }) => isWritten)
  }

  /**
   * `claimedNode` is the unverified header `x-node-id`. The entitlement of a caller that claims none is cached: the calls
   * of a token share one identity, which nothing changes.
   */
  entitlementOf(tenant: string, caller: Caller, claimedNode: string | null): Entitlement {
    if (claimedNode !== null) return this.#rulesOf(tenant).entitlementOf(caller, claimedNode)
    const cached = this.#byCaller.get(caller)
    if (cached?.tenant === tenant) return cached.entitlement
    const entitlement = this.#rulesOf(tenant).entitlementOf(caller, null)
    this.#byCaller.set(caller, { tenant, entitlement })
    return entitlement
  }

  #rulesOf(tenant: string): TenantRules {
    if (this.#names.size === 0) return this.#unlistedRules
    const known = this.#byTenant.get(tenant)
    if (known !== undefined) return known
    const matches = this.#names.match(tenant)
    const keys = JSON.stringify(matches)
    const rules = this.#byKeys.get(keys) ?? this.#compile(matches)
    this.#byKeys.set(keys, rules)
    this.#byTenant.set(tenant, rules)
    return rules
  }

  /** The most specific entry that matches as it is written is the tenant's own. The others only restrict. */
  #compile(matches: readonly NameMatch[]): TenantRules {
    const entries = matches.flatMap(({ key, isWritten }, index): AppliedEntry[] => {
      const entry = this.#entries.get(key)
      const form = !isWritten ? 'folded' : index === 0 ? 'full' : 'restricting'
      return entry === undefined ? [] : [{ entry, form }]
    })
    const [first] = entries
    return entries.length === 0
      ? this.#unlistedRules
      : new TenantRules(first?.form === 'full' ? first.entry.base : this.#unlisted, entries)
  }
}

/** What applies to a tenant by its plan. */
interface PlanBase {
  readonly limits: ToolLimits
  readonly grants: readonly Grant[]
}

/** One of `tenants`. */
interface TenantEntry {
  readonly base: PlanBase
  readonly grant: Grant
  readonly principals: Readonly<Record<PrincipalSection, Principals>>
}

interface AppliedEntry {
  readonly entry: TenantEntry
  readonly form: keyof NamedGrants
}

function compileTenant(
  key: string,
  rules: TenantConfig,
  plans: ReadonlyMap<string, ParsedPlan>,
): TenantEntry {
  const plan = findPlan(plans, rules.plan)
  return {
    base: { limits: parseLimits(plan), grants: [planGrant(rules.plan, plan, false)] },
    grant: tenantGrant(key, rules),
    principals: bySection((section) => new Principals(key, section, rules[section])),
  }
}

function bySection<T>(of: (section: PrincipalSection) => T): Record<PrincipalSection, T> {
  return Object.fromEntries(PRINCIPAL_SECTIONS.map((section) => [section, of(section)])) as Record<
    PrincipalSection,
    T
  >
}

class TenantRules {
  readonly #combined: CombinedGrants
  readonly #principals: Readonly<Record<PrincipalSection, Pick<Principals, 'of' | 'size'>>>

  constructor({ limits, grants }: PlanBase, entries: readonly AppliedEntry[]) {
    this.#combined = new CombinedGrants(limits, [...grants, ...entries.map(grantOf)])
    const [first, ...others] = entries
    this.#principals = bySection((section) =>
      first?.form === 'full' && others.length === 0
        ? first.entry.principals[section]
        : new JoinedPrincipals(entries.map(({ entry, form }) => [form, entry.principals[section]])),
    )
  }

  entitlementOf(caller: Caller, claimedNode: string | null): Entitlement {
    return this.#combined.of(this.#grantsOf(caller, claimedNode))
  }

  /** Reads of the caller only what a section needs, as the record of a call may lack the rest. */
  #grantsOf(caller: Caller, claimedNode: string | null): readonly Grant[] {
    const { users, user_ids, roles, agents, agent_nodes } = this.#principals
    const grants: Grant[] = []
    if (users.size > 0 && caller.user !== undefined) add(grants, users.of(caller.user).full)
    if (user_ids.size > 0 && caller.userId !== undefined) add(grants, user_ids.of(caller.userId).full)
    if (roles.size > 0) for (const role of caller.roles) add(grants, roles.of(role).full)
    if (agents.size > 0) add(grants, ofAgent(agents, caller))
    if (agent_nodes.size > 0) add(grants, ofNodes(agent_nodes, caller.nodeId, claimedNode))
    return grants
  }
}

/** A key may match several roles. */
function add(grants: Grant[], more: readonly Grant[]): void {
  for (const grant of more) if (!grants.includes(grant)) grants.push(grant)
}

/** With a user, the client of the token only restricts: what it allows is for the service agent. */
function ofAgent(agents: Pick<Principals, 'of'>, caller: Caller): readonly Grant[] {
  if (caller.user === undefined) return caller.clientId === undefined ? [] : agents.of(caller.clientId).full
  const client = caller.client ?? caller.clientId
  return client === undefined ? [] : agents.of(client).restricting
}

function ofNodes(
  nodes: Pick<Principals, 'of'>,
  nodeId: string | undefined,
  claimedNode: string | null,
): readonly Grant[] {
  const grants: Grant[] = []
  if (claimedNode !== null) {
    const { full, restricting } = nodes.of(claimedNode)
    add(grants, claimedNode === nodeId ? full : restricting)
  }
  // The restrictions of the token's node apply even if the header is missing or names another node.
  if (nodeId !== undefined && nodeId !== claimedNode) {
    const { full, restricting } = nodes.of(nodeId)
    for (const [i, grant] of full.entries())
      add(grants, [grant.overrides === true ? grant : (restricting[i] ?? grant)])
  }
  return grants
}

function grantOf({ entry: { grant }, form }: AppliedEntry): Grant {
  if (form === 'full') return grant
  return form === 'folded' ? { ...restrictionsOf(grant), isFolded: true } : restrictionsOf(grant)
}

function tenantGrant(tenant: string, rules: TenantConfig): Grant {
  const title = `tenant "${tenant}"`
  const path = ['entitlements', 'tenants', tenant]
  return {
    level: 'tenant',
    path,
    title,
    name: title,
    keySuffix: '',
    specificity: specificityOf(tenant),
    ...compiledParts(rules),
  }
}

/** A listed tenant's allowlist replaces the plan's; the plan's denylist always applies. */
function planGrant(name: string, { allowlist = [], denylist }: ParsedPlan, hasAllowlist: boolean): Grant {
  const title = `plan "${name}"`
  const parts = compiledParts({ denylist, ...(hasAllowlist ? { allowlist } : {}) })
  const path = ['entitlements', 'plans', name]
  return { level: 'plan', path, title, name: title, keySuffix: '', specificity: 0, ...parts }
}

function findPlan(plans: ReadonlyMap<string, ParsedPlan>, name: string): ParsedPlan {
  const plan = plans.get(name)
  if (plan === undefined) throw new Error(`entitlements: no plan "${name}"`)
  return plan
}

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
