// Limits the connections on which each tenant has made calls, so that no tenant keeps the others from connecting.
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
   * Counts the connection for the tenant, until it closes. False where the tenant has as many as it may have and this one
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
