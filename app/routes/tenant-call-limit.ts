// Limits the calls that each tenant has in flight, so that no tenant uses up the gateway or its upstreams.
import { type Call, Refusal, slot } from '@svc/core'

/** The tenant that a call is counted for. */
const countedFor = slot<string>('svc-sdk/countedFor')

export class TenantCallLimit {
  #max: number
  #running = new Map<string, number>()

  constructor(max: number) {
    this.#max = max
  }

  /** Counts the call, once its caller is known. Throws `Refusal` (`RATE_LIMITED`). */
  acquire(call: Call, tenant: string): void {
    const running = this.#running.get(tenant) ?? 0
    if (running >= this.#max) {
      throw new Refusal('RATE_LIMITED', `The tenant has ${running} calls in flight, as many as it may have.`)
    }
    this.#running.set(tenant, running + 1)
    call.set(countedFor, tenant)
  }

  /** Undoes `acquire`, if it counted the call. To be called once for each call, after its answer. */
  release(call: Call): void {
    const tenant = call.get(countedFor)
    if (tenant === undefined) return
    const running = this.#running.get(tenant) ?? 0
    if (running > 1) this.#running.set(tenant, running - 1)
    else this.#running.delete(tenant)
  }
}
