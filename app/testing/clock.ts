import type { Clock } from '@svc/core'

/** A clock that only `advance` and `set` move. */
export class FakeClock implements Clock {
  #now: number
  #monotonic = 0

  /** Starts at `now`, milliseconds since the epoch; 2026-01-01T00:00:00Z where not given. */
  constructor(now = Date.UTC(2026, 0, 1)) {
    this.#now = now
  }

  /** Like `monotonic`, bound: it may be handed on by itself. */
  readonly now = (): number => this.#now
  readonly monotonic = (): number => this.#monotonic

  /** Time passes: both readings move on by `ms`, which is not negative. */
  advance(ms: number): void {
    if (!(ms >= 0)) throw new RangeError(`time does not pass by ${ms} ms`)
    this.#now += ms
    this.#monotonic += ms
  }

  /** The wall clock is set, as by an administrator; the monotonic one does not notice. */
  set(now: number): void {
    this.#now = now
  }
}
