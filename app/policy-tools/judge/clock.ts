// The time of tested calls, which passes only as their file says.
import type { Clock } from '@svc/core'

/** A time, or milliseconds after the call before. */
export type At = { readonly time: number } | { readonly after: number }

/** The default, so that a test has the same result on every day. */
const START = Date.parse('2026-01-01T12:00:00Z')

export class VirtualClock implements Clock {
  #now = START

  now(): number {
    return this.#now
  }

  monotonic(): number {
    return this.#now - START
  }

  /** Undefined keeps the time. */
  set(at: At | undefined): void {
    if (at === undefined) return
    this.#now = 'time' in at ? at.time : this.#now + at.after
  }
}
