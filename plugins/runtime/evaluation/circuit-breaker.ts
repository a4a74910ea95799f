// Stops requests to a runtime that keeps failing, so that an unavailable runtime does not cost every call its time-out.
import type { Clock } from '@svc/core'

const failureThreshold = 5
const minCooldownMs = 1000
const maxCooldownMs = 30_000

/** Permission for one request. Only the first of the three calls counts. */
export interface Permit {
  succeeded(): void
  failed(): void
  /** The caller left before the request ended, so the result says nothing about the runtime. */
  abandoned(): void
}

export class CircuitBreaker {
  #clock: Clock
  #onChange: (isOpen: boolean) => void
  #failures = 0
  /** Monotonic milliseconds; undefined while the circuit is closed. */
  #cooldownEnd: number | undefined
  #cooldownMs = minCooldownMs
  #isProbing = false

  /** `onChange` is called when the circuit opens and when it closes. */
  constructor(clock: Clock, onChange: (isOpen: boolean) => void) {
    this.#clock = clock
    this.#onChange = onChange
  }

  /** Undefined during the cooldown. After it, one request probes the runtime; all others get undefined until it ends. */
  acquire(): Permit | undefined {
    const isProbe = this.isOpen
    if (isProbe && (this.#isProbing || this.cooldownLeftMs > 0)) return undefined
    if (isProbe) this.#isProbing = true
    let isDone = false
    const once = (end: () => void) => (): void => {
      if (isDone) return
      isDone = true
      if (isProbe) this.#isProbing = false
      end()
    }
    return {
      succeeded: once(() => this.#succeeded()),
      failed: once(() => this.#failed(isProbe)),
      abandoned: once(() => undefined),
    }
  }

  /** Milliseconds until the next probe is allowed. */
  get cooldownLeftMs(): number {
    return Math.max(0, (this.#cooldownEnd ?? 0) - this.#clock.monotonic())
  }

  get isOpen(): boolean {
    return this.#cooldownEnd !== undefined
  }

  /** Consecutive failures. */
  get failures(): number {
    return this.#failures
  }

  #succeeded(): void {
    const wasOpen = this.isOpen
    this.#failures = 0
    this.#cooldownEnd = undefined
    this.#cooldownMs = minCooldownMs
    if (wasOpen) this.#onChange(false)
  }

  #failed(isProbe: boolean): void {
    // A request that was in flight when the circuit opened adds no information.
    if (this.isOpen && !isProbe) return
    this.#failures++
    if (this.#failures < failureThreshold) return
    if (isProbe) this.#cooldownMs = Math.min(this.#cooldownMs * 2, maxCooldownMs)
    this.#cooldownEnd = this.#clock.monotonic() + this.#cooldownMs
    if (!isProbe) this.#onChange(true)
  }
}
