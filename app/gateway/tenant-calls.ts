// How many calls each tenant has in flight: one tenant must not take the gateway, or its upstreams, from the others.
import { type Call, identity, Refusal, slot } from '@svc/core'

/** Under which tenant a call is counted. */
const countedFor = slot<string>('svc-sdk/countedFor')

export class TenantCalls {
  #most: number
  #standard: string
  #running = new Map<string, number>()

  /** `standard` is the tenant of calls that nobody attributes. */
  constructor(most: number, standard: string) {
    this.#most = most
    this.#standard = standard
  }

  /** Counts the call, once it is known who makes it. Throws `Refusal` (`RATE_LIMITED`). */
  enter(call: Call): void {
    const tenant = call.get(identity)?.tenant ?? this.#standard
    const running = this.#running.get(tenant) ?? 0
    if (running >= this.#most) {
      throw new Refusal('RATE_LIMITED', `The tenant has ${running} calls in flight, as many as it may have.`)
    }
    this.#running.set(tenant, running + 1)
    call.set(countedFor, tenant)
  }

  /** Takes back what `enter` counted, if it did. To be told of every call once, when its answer has ended. */
  leave(call: Call): void {
    const tenant = call.get(countedFor)
    if (tenant === undefined) return
    const running = this.#running.get(tenant) ?? 0
    if (running > 1) this.#running.set(tenant, running - 1)
    else this.#running.delete(tenant)
  }
}
