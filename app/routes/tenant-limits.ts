// Limits what each tenant has, so that no tenant uses up the gateway or its upstreams, or keeps others from connecting:
// calls, streams of notifications, which clients keep open, and connections on which it has made calls.
import { Refusal } from '@svc/core'
import { Tally } from '@svc/core/store'

/** The part of a socket that is used. */
interface ClientSocket {
  once(event: 'close', listener: () => void): unknown
}

export class TenantConnections {
  #max: number
  #open = new Tally()
  #tenantsOf = new WeakMap<ClientSocket, Set<string>>()

  constructor(max: number) {
    this.#max = max
  }

  /**
   * Counts the connection for the tenant, until it closes. False if the tenant has as many as it may have and this one
   * is not among them.
   */
  admit(socket: ClientSocket, tenant: string): boolean {
    const tenants = this.#tenantsOf.get(socket) ?? new Set()
    if (tenants.has(tenant)) return true
    if (this.#open.of(tenant) >= this.#max) return false
    this.#open.add(tenant)
    this.#tenantsOf.set(socket, tenants.add(tenant))
    socket.once('close', () => this.#open.remove(tenant))
    return true
  }
}

export class TenantCallLimit {
  #max: number
  #what: string
  #running = new Tally()

  /** `what` names the counted things, in the plural. */
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
