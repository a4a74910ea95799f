// One circuit: after consecutive failures it allows no requests for a cooldown, and then one at a time as a probe.
import type { Clock } from '@svc/core'

const minCooldownMs = 1000
export const maxCooldownMs = 30_000

export class Circuit {
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
