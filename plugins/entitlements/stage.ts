// Adds a finding for what the caller may not use, and sets the limits of the call.
import {
  after,
  type Call,
  type CallRequest,
  identity,
  limits,
  type MaybePromise,
  type Next,
  type Outcome,
  type Stage,
} from '@svc/core'
import type { Entitlement } from './entitlement.js'
import { explainEntitlement } from './explain.js'
import type { Tenants } from './tenants.js'

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

  #check(call: Call, request: CallRequest): Entitlement {
    const caller = call.get(identity) ?? ANONYMOUS
    const entitlement = this.#tenants.entitlementOf(this.#tenantOf(call), caller, call.agent.nodeId)
    const decision = entitlement.decisionOn(request)
    call.addReferenceRule(entitlement.rule)
    if (decision.finding !== undefined) call.addFinding(decision.finding)
    call.set(limits, decision.limits)
    return entitlement
  }

  #tenantOf(call: Call): string {
    return call.get(identity)?.tenant ?? this.#tenant
  }
}
