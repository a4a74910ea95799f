// Stops requests to a runtime that keeps failing, so that an unavailable runtime does not cost every call its time-out.
//
// A request can fail because of its input, so failures count for the principal that sent it. Only failures to connect,
// which no input causes, stop the requests of all. If several principals fail and nobody succeeds, each is stopped at
// its own first failure, but none because of the failures of others: otherwise callers who make the runtime fail would
// decide that the calls of others are not evaluated.
import type { Clock } from '@svc/core'
import { BoundedMap } from '@svc/core/store'

const minCooldownMs = 1000
const maxCooldownMs = 30_000
const failureThreshold = 5
/** Number of principals that failed, without any success, from which on the runtime counts as failing for all. */
const outagePrincipals = 3
const maxPrincipals = 10_000
/** A principal's failures are forgotten when they are older than the longest cooldown. */
const failureLifeMs = 2 * maxCooldownMs

/** Permission for one request. Only the first call of a method counts. */
interface Permit {
  succeeded(): void
  /** `isConnection`: the runtime could not be connected to. */
  failed(isConnection: boolean): void
  /** The caller left before the request ended, so the result says nothing about the runtime. */
  abandoned(): void
}

export class CircuitBreaker {
  #clock: Clock
  #onChange: (isOpen: boolean) => void
  #connection: Circuit
  /** Keyed by principal; only principals whose last request failed have an entry. */
  #principals = new BoundedMap<string, Circuit>(maxPrincipals)
  /** Principals with a failure since the last success; not more than the rule needs. */
  #failing = new Set<string>()
  #wasOpen = false

  /** `onChange` is called when the runtime begins to fail for all callers, and when that ends. */
  constructor(clock: Clock, onChange: (isOpen: boolean) => void) {
    this.#clock = clock
    this.#onChange = onChange
    this.#connection = new Circuit(clock)
  }

  /** Whether the runtime cannot be connected to, or fails for several principals and succeeds for none. */
  get isOpen(): boolean {
    return this.#connection.isOpen || this.#failing.size >= outagePrincipals
  }

  /** Milliseconds until the next request of the principal is allowed. */
  cooldownLeftMs(principal: string): number {
    const own = this.#circuitOf(principal)?.cooldownLeftMs ?? 0
    return Math.max(own, this.#connection.cooldownLeftMs)
  }

  /**
   * Undefined while no request is allowed.
   *
   * @param stopsOne - Whether a principal is stopped for its own failures alone. Must be false if a call that is not
   *   evaluated may pass: otherwise a principal could choose by failing calls that its next one is not evaluated.
   */
  acquire(principal: string, stopsOne: boolean): Permit | undefined {
    const own = this.#circuitOf(principal)
    const isStopped = own?.allowsRequest === false && (stopsOne || this.isOpen)
    if (isStopped || !this.#connection.allowsRequest) return undefined
    const ends = [this.#connection.begin(), own?.begin() ?? (() => false)] as const
    let isDone = false
    const once = (end: (wasConnectionProbe: boolean, wasOwnProbe: boolean) => void) => (): void => {
      if (isDone) return
      isDone = true
      end(ends[0](), ends[1]())
      this.#report()
    }
    return {
      succeeded: once(() => this.#succeeded(principal)),
      failed: (isConnection) =>
        once((wasConnectionProbe, wasOwnProbe) => {
          if (isConnection) return this.#connection.failed(wasConnectionProbe, failureThreshold)
          this.#connection.succeeded()
          this.#failed(principal, wasOwnProbe)
        })(),
      abandoned: once(() => undefined),
    }
  }

  #succeeded(principal: string): void {
    this.#connection.succeeded()
    this.#principals.delete(principal)
    this.#failing.clear()
  }

  #failed(principal: string, wasProbe: boolean): void {
    if (this.#failing.size < outagePrincipals) this.#failing.add(principal)
    const circuit = this.#circuitOf(principal) ?? new Circuit(this.#clock)
    circuit.failed(wasProbe, this.isOpen ? 1 : failureThreshold)
    this.#principals.set(principal, circuit)
  }

  #circuitOf(principal: string): Circuit | undefined {
    const circuit = this.#principals.get(principal)
    if (circuit === undefined || this.#clock.monotonic() - circuit.lastFailure <= failureLifeMs)
      return circuit
    this.#principals.delete(principal)
    return undefined
  }

  #report(): void {
    if (this.isOpen === this.#wasOpen) return
    this.#wasOpen = this.isOpen
    this.#onChange(this.#wasOpen)
  }
}

/** After consecutive failures it allows no requests for a cooldown, and then one at a time as a probe. */
class Circuit {
  #clock: Clock
  #failures = 0
  /** Monotonic milliseconds; undefined while the circuit is closed. */
  #cooldownEnd: number | undefined
  #cooldownMs = minCooldownMs
  #isProbing = false
  /** Monotonic milliseconds. */
  lastFailure = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get isOpen(): boolean {
    return this.#cooldownEnd !== undefined
  }

  /** Milliseconds until the next probe is allowed. */
  get cooldownLeftMs(): number {
    return Math.max(0, (this.#cooldownEnd ?? 0) - this.#clock.monotonic())
  }

  get allowsRequest(): boolean {
    return !this.isOpen || (!this.#isProbing && this.cooldownLeftMs === 0)
  }

  /** Begins a request that `allowsRequest`. The result ends it: whether it was a probe of an open circuit. */
  begin(): () => boolean {
    const isProbe = this.isOpen
    if (isProbe) this.#isProbing = true
    return () => {
      if (isProbe) this.#isProbing = false
      return isProbe
    }
  }

  succeeded(): void {
    this.#failures = 0
    this.#cooldownEnd = undefined
    this.#cooldownMs = minCooldownMs
  }

  /** Opens the circuit at the failure with the number `threshold`. */
  failed(isProbe: boolean, threshold: number): void {
    // A request that was in flight when the circuit opened adds no information.
    if (this.isOpen && !isProbe) return
    this.lastFailure = this.#clock.monotonic()
    this.#failures++
    if (this.#failures < threshold) return
    if (isProbe) this.#cooldownMs = Math.min(this.#cooldownMs * 2, maxCooldownMs)
    this.#cooldownEnd = this.lastFailure + this.#cooldownMs
  }
}
