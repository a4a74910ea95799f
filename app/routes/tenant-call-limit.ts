// Limits what each tenant has in flight, so that no tenant uses up the gateway or its upstreams: calls, and apart from
// them streams of notifications, which clients keep open.
import { Refusal } from '@svc/core'
import { Tally } from '@svc/core/store'

export class TenantCallLimit {
  #max: number
  #what: string
  #running = new Tally()

  /** `what` is counted, in the plural. */
  constructor(max: number, what: string) {
    this.#max = max
    this.#what = what
  }

  /** Counts one more until the returned function runs. Throws `Refusal` (`RATE_LIMITED`). */
  acquire(tenant: string): () => void {
    const running = this.#running.of(tenant)
    if (running >= this.#max) {
      throw new Refusal('RATE_LIMITED', `The tenant has ${running} ${this.#what}, as many as it may have.`)
    }
    this.#running.add(tenant)
    return () => this.#running.remove(tenant)
  }
}
