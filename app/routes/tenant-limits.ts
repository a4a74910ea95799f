// Limits what each tenant has, so that no tenant uses up the gateway or its upstreams, or keeps others from connecting:
// calls, streams of notifications, which clients keep open, and connections on which it has made calls.
import { after, type MaybePromise, Refusal } from '@svc/core'
import { takeWhileOpen, type UseLimit } from '../budget/use-limit.js'

/** The part of a socket that is used. */
interface ClientSocket {
  once(event: 'close', listener: () => void): unknown
}

export class TenantConnections {
  #limit: UseLimit
  #tenantsOf = new WeakMap<ClientSocket, Map<string, MaybePromise<boolean>>>()

  constructor(limit: UseLimit) {
    this.#limit = limit
  }

  /**
   * Counts the connection for the tenant, until it closes. False if the tenant has as many as it may have and this one
   * is not among them.
   */
  admit(socket: ClientSocket, tenant: string): MaybePromise<boolean> {
    const tenants = this.#tenantsOf.get(socket) ?? new Map<string, MaybePromise<boolean>>()
    const known = tenants.get(tenant)
    if (known !== undefined) return known
    const taken = after(takeWhileOpen(this.#limit, tenant, socket), (isTaken) => {
      if (isTaken) tenants.set(tenant, true)
      else tenants.delete(tenant)
      return isTaken
    })
    if (taken === false) return false
    this.#tenantsOf.set(socket, tenants.set(tenant, taken))
    return taken
  }
}

export class TenantCallLimit {
  #limit: UseLimit
  #what: string

  /** `what` names the counted things, in the plural. */
  constructor(limit: UseLimit, what: string) {
    this.#limit = limit
    this.#what = what
  }

  /** Counts one more until the returned function runs. Throws or rejects with `Refusal` (`RATE_LIMITED`). */
  acquire(tenant: string): MaybePromise<() => void> {
    return after(this.#limit.take(tenant), (isTaken) => {
      if (isTaken) return () => this.#limit.release(tenant)
      const { max } = this.#limit
      throw new Refusal('RATE_LIMITED', `The tenant has ${max} ${this.#what}, as many as it may have.`)
    })
  }
}
