// Finds what the caller may not use, and says which limits apply to what it may.
import {
  type Call,
  type CallRequest,
  identity,
  type Limit,
  limits,
  type Next,
  type Outcome,
  type Stage,
} from '@svc/core'
import type { Entitlement } from './entitlement.js'
import { explainEntitlement } from './explain.js'
import type { Tenants } from './tenants.js'

const NO_LIMITS: readonly Limit[] = []
const NOBODY = { roles: [] }

export class EntitlementsStage implements Stage {
  #tenants: Tenants
  #tenant: string

  /** `tenant` is the one that calls belong to where no stage tells who is calling. */
  constructor(tenants: Tenants, tenant: string) {
    this.#tenants = tenants
    this.#tenant = tenant
  }

  async handle(call: Call, next: Next): Promise<Outcome> {
    this.#judge(call, await call.request())
    return next()
  }

  async explain(call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    const request = await call.request()
    const tenant = this.#tenantOf(call)
    say(
      this.#tenants.has(tenant)
        ? `tenant "${tenant}" is listed`
        : `tenant "${tenant}" is not listed: default plan`,
    )
    explainEntitlement(this.#judge(call, request), request, say)
    return next()
  }

  #judge(call: Call, { kind, reference }: CallRequest): Entitlement {
    const caller = call.get(identity) ?? NOBODY
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
