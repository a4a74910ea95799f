// Limits what each tenant has in flight, so that no tenant uses up the gateway or its upstreams: calls, and apart from
// them streams of notifications, which clients keep open.
import { Refusal } from '@svc/core'

export class TenantCallLimit {
  #max: number
  #what: string
  #running = new Map<string, number>()

  /** `what` is counted, in the plural. */
  constructor(max: number, what: string) {
    this.#max = max
    this.#what = what
  }

  /** Counts one more until the returned function runs. Throws `Refusal` (`RATE_LIMITED`). */
  acquire(tenant: string): () => void {
    const running = this.#running.get(tenant) ?? 0
    if (running >= this.#max) {
      throw new Refusal('RATE_LIMITED', `The tenant has ${running} ${this.#what}, as many as it may have.`)
    }
    this.#running.set(tenant, running + 1)
    return () => this.#release(tenant)
  }

  #release(tenant: string): void {
    const running = this.#running.get(tenant) ?? 0
    if (running > 1) this.#running.set(tenant, running - 1)
    else this.#running.delete(tenant)
  }
}
