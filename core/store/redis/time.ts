// The time of a Redis server, which all gateways that use it share: what is kept there ends for all at once, and a wall clock
// that is set, or wrong, changes nothing.
import type { Clock } from '../../plugin/tokens.js'

export class RedisTime {
  #clock: Pick<Clock, 'now' | 'monotonic'>
  #read: { readonly server: number; readonly steady: number } | undefined

  constructor(clock: Pick<Clock, 'now' | 'monotonic'>) {
    this.#clock = clock
  }

  /** Milliseconds since the epoch; until the first reading, those of the wall clock. */
  now(): number {
    return this.#read === undefined ? this.#clock.now() : this.#at(this.#read, this.#clock.monotonic())
  }

  /** A response has this time, and was asked for at `asked`, in monotonic milliseconds. */
  read(server: number, asked: number): void {
    const uncertain = (this.#clock.monotonic() - asked) / 2
    const steady = asked + uncertain
    // A reading that a slow response blurs must not move the time to and fro.
    const isKnown =
      this.#read !== undefined && Math.abs(this.#at(this.#read, steady) - server) <= uncertain + 1
    if (!isKnown) this.#read = { server, steady }
  }

  #at({ server, steady }: { readonly server: number; readonly steady: number }, instant: number): number {
    return Math.round(server + instant - steady)
  }
}
