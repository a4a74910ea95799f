// How many calls each tenant has in flight: one tenant must not take the gateway, or its upstreams, from the others.
import { type Call, identity, Refusal, slot } from '@svc/core'

/** Under which tenant a call is counted. */
const countedFor = slot<string>('svc-sdk/countedFor')

export class TenantCallLimit {
  #max: number
  #defaultTenant: string
  #running = new Map<string, number>()

  /** `defaultTenant` is the tenant of calls that no token attributes. */
  constructor(max: number, defaultTenant: string) {
    this.#max = max
    this.#defaultTenant = defaultTenant
  }

  /** Counts the call, once it is known who makes it. Throws `Refusal` (`RATE_LIMITED`). */
  acquire(call: Call): void {
    const tenant = call.get(identity)?.tenant ?? this.#defaultTenant
    const running = this.#running.get(tenant) ?? 0
    if (running >= this.#max) {
      throw new Refusal('RATE_LIMITED', `The tenant has ${running} calls in flight, as many as it may have.`)
    }
    this.#running.set(tenant, running + 1)
    call.set(countedFor, tenant)
  }

  /** Takes back what `enter` counted, if it did. To be told of every call once, when its answer has ended. */
  release(call: Call): void {
    const tenant = call.get(countedFor)
    if (tenant === undefined) return
    const running = this.#running.get(tenant) ?? 0
    if (running > 1) this.#running.set(tenant, running - 1)
    else this.#running.delete(tenant)
  }
}
