// Limits how many of something each key has at a time: connections of an address; calls, streams of notifications and
// connections of a tenant, so that no tenant uses up the gateway or its upstreams, or keeps others from connecting.
import { Refusal } from '@svc/core'

/** The part of a socket that is used. */
interface ClosingSocket {
  once(event: 'close', listener: () => void): unknown
}

export class UseLimit {
  readonly max: number
  /** A key that has none has no entry. */
  readonly #used = new Map<string, number>()

  constructor(max: number) {
    this.max = max
  }

  /** False if the key has as many as it may have. */
  take(key: string): boolean {
    const used = this.#used.get(key) ?? 0
    if (used >= this.max) return false
    this.#used.set(key, used + 1)
    return true
  }

  release(key: string): void {
    const used = this.#used.get(key) ?? 0
    if (used > 1) this.#used.set(key, used - 1)
    else this.#used.delete(key)
  }

  /** Takes one for the key until the socket closes. */
  takeWhileOpen(key: string, socket: ClosingSocket): boolean {
    const isTaken = this.take(key)
    if (isTaken) socket.once('close', () => this.release(key))
    return isTaken
  }
}

/** The calls or the streams of a tenant. */
export class TenantCallLimit extends UseLimit {
  readonly #what: string

  /** `what` names the counted things, in the plural. */
  constructor(max: number, what: string) {
    super(max)
    this.#what = what
  }

  /** The refusal of one more than the tenant may have. */
  get refusal(): Refusal {
    return new Refusal('RATE_LIMITED', `The tenant has ${this.max} ${this.#what}, as many as it may have.`)
  }
}

/** The connections on which each tenant has made calls. */
export class TenantConnections {
  readonly #limit: UseLimit
  readonly #tenantsOf = new WeakMap<ClosingSocket, Set<string>>()

  constructor(max: number) {
    this.#limit = new UseLimit(max)
  }

  /** Whether the connection is counted for the tenant. */
  has(socket: ClosingSocket, tenant: string): boolean {
    return this.#tenantsOf.get(socket)?.has(tenant) === true
  }

  /** Counts the connection for the tenant until it closes. False if the tenant has as many as it may have. */
  admit(socket: ClosingSocket, tenant: string): boolean {
    if (!this.#limit.takeWhileOpen(tenant, socket)) return false
    const tenants = this.#tenantsOf.get(socket) ?? new Set<string>()
    this.#tenantsOf.set(socket, tenants.add(tenant))
    return true
  }
}
