// Leaves a runtime alone that fails again and again, so that a dead one does not cost every call its time-out.
import type { Clock } from '@svc/core'

const failuresBeforeRest = 5
const firstRestMs = 1000
const longestRestMs = 30_000

/** Leave to ask once. The first of the three counts. */
export interface Permit {
  succeeded(): void
  failed(): void
  /** Nobody waited for the end: that says nothing of the runtime. */
  abandoned(): void
}

export class CircuitBreaker {
  #clock: Clock
  #onChange: (isOpen: boolean) => void
  #failures = 0
  /** Monotonic milliseconds; undefined while the circuit is closed. */
  #restsUntil: number | undefined
  #restMs = firstRestMs
  #isProbing = false

  /** `onChange` is told when the circuit opens and closes; not of probes. */
  constructor(clock: Clock, onChange: (isOpen: boolean) => void) {
    this.#clock = clock
    this.#onChange = onChange
  }

  /** Undefined while the runtime rests; once it has rested, one may ask and the others wait for what it hears. */
  admit(): Permit | undefined {
    const isProbe = this.#restsUntil !== undefined
    if (isProbe && (this.#isProbing || this.restsForMs > 0)) return undefined
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

  /** How long nobody will be asked, in milliseconds. */
  get restsForMs(): number {
    return Math.max(0, (this.#restsUntil ?? 0) - this.#clock.monotonic())
  }

  get isOpen(): boolean {
    return this.#restsUntil !== undefined
  }

  /** Failures in a row. */
  get failures(): number {
    return this.#failures
  }

  #succeeded(): void {
    const wasOpen = this.isOpen
    this.#failures = 0
    this.#restsUntil = undefined
    this.#restMs = firstRestMs
    if (wasOpen) this.#onChange(false)
  }

  #failed(isProbe: boolean): void {
    // One that was on its way when the circuit opened tells nothing new.
    if (this.isOpen && !isProbe) return
    this.#failures++
    if (this.#failures < failuresBeforeRest) return
    if (isProbe) this.#restMs = Math.min(this.#restMs * 2, longestRestMs)
    this.#restsUntil = this.#clock.monotonic() + this.#restMs
    if (!isProbe) this.#onChange(true)
  }
}
