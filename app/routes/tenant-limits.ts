// Limits what each tenant has, so that no tenant uses up the gateway or its upstreams, or keeps others from connecting:
// calls, streams of notifications, which clients keep open, and connections on which it has made calls.
import { Refusal } from '@svc/core'
import { UseLimit } from '../budget/use-limit.js'

/** The part of a socket that is used. */
interface ClientSocket {
  once(event: 'close', listener: () => void): unknown
}

export class TenantConnections {
  #limit: UseLimit
  #tenantsOf = new WeakMap<ClientSocket, Set<string>>()

  constructor(max: number) {
    this.#limit = new UseLimit(max)
  }

  /**
   * Counts the connection for the tenant, until it closes. False if the tenant has as many as it may have and this one
   * is not among them.
   */
  admit(socket: ClientSocket, tenant: string): boolean {
    const tenants = this.#tenantsOf.get(socket) ?? new Set<string>()
    if (tenants.has(tenant)) return true
    if (!this.#limit.takeWhileOpen(tenant, socket)) return false
    this.#tenantsOf.set(socket, tenants.add(tenant))
    return true
  }
}

export class TenantCallLimit {
  #limit: UseLimit
  #what: string

  /** `what` names the counted things, in the plural. */
  constructor(max: number, what: string) {
    this.#limit = new UseLimit(max)
    this.#what = what
  }

  /** Counts one more until it is released. Throws `Refusal` (`RATE_LIMITED`). */
  acquire(tenant: string): void {
    if (this.#limit.take(tenant)) return
    const { max } = this.#limit
    throw new Refusal('RATE_LIMITED', `The tenant has ${max} ${this.#what}, as many as it may have.`)
  }

  release(tenant: string): void {
    this.#limit.release(tenant)
  }
}
