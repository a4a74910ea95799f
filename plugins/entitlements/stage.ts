// Adds a finding for what the caller may not use, and sets the limits of the call.
import {
  after,
  type Call,
  type CallRequest,
  identity,
  type Limit,
  limits,
  type MaybePromise,
  type Next,
  type Outcome,
  type Stage,
} from '@svc/core'
import type { Entitlement } from './entitlement.js'
import { explainEntitlement } from './explain.js'
import type { Tenants } from './tenants.js'

const NO_LIMITS: readonly Limit[] = []
const ANONYMOUS = { roles: [] }

export class EntitlementsStage implements Stage {
  #tenants: Tenants
  #tenant: string

  /** `tenant` is that of calls without an identity. */
  constructor(tenants: Tenants, tenant: string) {
    this.#tenants = tenants
    this.#tenant = tenant
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    return after(call.request(), (request) => {
      this.#check(call, request)
      return next()
    })
  }

  async explain(call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    const request = await call.request()
    const tenant = this.#tenantOf(call)
    if (this.#tenants.hasPlans) {
      const status = this.#tenants.has(tenant) ? 'is listed' : 'is not listed: the default plan applies'
      say(`tenant "${tenant}" ${status}`)
    }
    explainEntitlement(this.#check(call, request), request, say)
    return next()
  }

  #check(call: Call, { kind, reference }: CallRequest): Entitlement {
    const caller = call.get(identity) ?? ANONYMOUS
    const entitlement = this.#tenants.entitlementOf(this.#tenantOf(call), caller, call.agent.nodeId)
    call.addReferenceRule(entitlement.rule)
    const finding = entitlement.rule(reference, kind)
    if (finding !== undefined) call.addFinding(finding)
    call.set(limits, kind === 'protocol' ? NO_LIMITS : entitlement.limitsOf(reference))
    return entitlement
  }

  #tenantOf(call: Call): string {
    return call.get(identity)?.tenant ?? this.#tenant
  }
}
