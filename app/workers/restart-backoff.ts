// Decides when a worker that ended is replaced, and when its replacements have failed too often.
import type { WorkerEnd } from './worker-process.js'

/** A worker that responded for this long was not broken from its start, in milliseconds. */
const stableMs = 10_000
const baseMs = 100
const maxMs = 5_000
/** Failures in a row after which the gateway gives up. */
const maxFailures = 5

/** Signals that others send, unless the worker hung: a worker does not end itself with these. */
const signalsOfOthers: ReadonlySet<string> = new Set(['SIGKILL', 'SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'])

export class RestartBackoff {
  /** Ends in a row of workers that were not stable. */
  #ends = 0
  /** The ends that the worker caused itself. */
  #failures = 0

  /** `servedMs` is undefined if the worker did not come so far as to serve. */
  ended({ signal, hungMs }: WorkerEnd, servedMs: number | undefined): void {
    if (servedMs !== undefined && servedMs - (hungMs ?? 0) >= stableMs) {
      this.#ends = 0
      this.#failures = 0
    }
    this.#ends++
    const isByOthers = hungMs === undefined && signal !== null && signalsOfOthers.has(signal)
    if (servedMs === undefined || !isByOthers) this.#failures++
  }

  get waitMs(): number {
    return this.#ends < 2 ? 0 : Math.min(maxMs, baseMs * 2 ** (this.#ends - 2))
  }

  get isExhausted(): boolean {
    return this.#failures >= maxFailures
  }
}
