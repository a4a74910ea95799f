// Decides when a server that failed may start again: exponential backoff, and a limit of starts in a row.
import type { Clock } from '@svc/core'
import type { StdioTarget } from './config.js'

/** A process that ran this long was not broken from its start, in milliseconds. */
const stableMs = 10_000

export class RestartLimit {
  #rules: StdioTarget['restart']
  #clock: Clock
  /** Exits in a row of processes that were not stable. */
  #failures = 0
  /** Starts in a row that ended before the handshake. */
  #failedStarts = 0
  #reason: string | undefined
  #notBefore = Number.NEGATIVE_INFINITY

  constructor(rules: StdioTarget['restart'], clock: Clock) {
    this.#rules = rules
    this.#clock = clock
  }

  /** Called when a process has completed the handshake. */
  started(): void {
    this.#failedStarts = 0
  }

  /** Called when a process ended by itself; `ranMs` since its handshake, undefined if it did not come that far. */
  failed(reason: string, ranMs?: number): void {
    this.#reason = reason
    if (ranMs === undefined) this.#failedStarts++
    this.#failures = ranMs !== undefined && ranMs >= stableMs ? 1 : this.#failures + 1
    this.#notBefore = this.#clock.monotonic() + this.waitMs
  }

  /** Forgets all failures. */
  reset(): void {
    this.#failures = 0
    this.#failedStarts = 0
    this.#notBefore = Number.NEGATIVE_INFINITY
  }

  /** Time from the last failure to the next start. */
  get waitMs(): number {
    if (this.#failures < 2) return 0
    return Math.min(this.#rules.max_ms, this.#rules.base_ms * 2 ** (this.#failures - 2))
  }

  get isExhausted(): boolean {
    return this.#failedStarts >= this.#rules.limit
  }

  /** Whether a process has failed since the policy was loaded. */
  get hasFailed(): boolean {
    return this.#failures > 0
  }

  /** Why the last process failed. */
  get reason(): string | undefined {
    return this.#reason
  }

  /** When the next process may start, in words for callers; undefined if it may start now. */
  refusal(): string | undefined {
    if (this.isExhausted) {
      return `${this.#failedStarts} starts failed in a row, and the next is after a reload of the policy`
    }
    const wait = this.#notBefore - this.#clock.monotonic()
    return wait > 0 ? `the next start is in ${Math.ceil(wait / 1000)} s` : undefined
  }
}
