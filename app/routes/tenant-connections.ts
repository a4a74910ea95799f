// Limits the connections on which each tenant has made calls, so that no tenant keeps the others from connecting.

/** The part of a socket that is used. */
interface ClientSocket {
  once(event: 'close', listener: () => void): unknown
}

export class TenantConnections {
  #max: number
  #open = new Map<string, number>()
  #tenantsOf = new WeakMap<ClientSocket, Set<string>>()

  constructor(max: number) {
    this.#max = max
  }

  /**
   * Counts the connection for the tenant, until it closes. False where the tenant has as many as it may have and this one
   * is not among them.
   */
  admit(socket: ClientSocket, tenant: string): boolean {
    const tenants = this.#tenantsOf.get(socket)
    if (tenants?.has(tenant)) return true
    const open = this.#open.get(tenant) ?? 0
    if (open >= this.#max) return false
    this.#open.set(tenant, open + 1)
    if (tenants === undefined) this.#follow(socket, tenant)
    else tenants.add(tenant)
    return true
  }

  #follow(socket: ClientSocket, tenant: string): void {
    const tenants = new Set([tenant])
    this.#tenantsOf.set(socket, tenants)
    socket.once('close', () => {
      for (const each of tenants) this.#end(each)
    })
  }

  #end(tenant: string): void {
    const open = this.#open.get(tenant) ?? 0
    if (open > 1) this.#open.set(tenant, open - 1)
    else this.#open.delete(tenant)
  }
}
