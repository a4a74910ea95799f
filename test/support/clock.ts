// A clock that a test moves.
import type { Clock } from '@svc/core'

export class TestClock implements Clock {
  #wall: number
  #monotonic = 0

  /** Milliseconds since the epoch. */
  constructor(start = Date.UTC(2026, 0, 1)) {
    this.#wall = start
  }

  readonly now = (): number => this.#wall
  readonly monotonic = (): number => this.#monotonic

  /** Lets `ms` milliseconds pass. */
  advance(ms: number): void {
    this.#wall += ms
    this.#monotonic += ms
  }
}
