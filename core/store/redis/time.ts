// The time of a Redis server, which all gateways that use it share: what is kept there ends for all at once, and a wall clock
// that is set, or wrong, changes nothing.
import type { Clock } from '../../plugin/tokens.js'
import type { RedisConnection } from './connection.js'
import { script } from './script.js'

const readTime = script(`
local time = redis.call('TIME')
return string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
`)

export class RedisTime {
  #connection: RedisConnection
  #clock: Pick<Clock, 'now' | 'monotonic'>
  #read: { readonly server: number; readonly steady: number } | undefined

  constructor(connection: RedisConnection, clock: Pick<Clock, 'now' | 'monotonic'>) {
    this.#connection = connection
    this.#clock = clock
  }

  /** Milliseconds since the epoch; until the first reading, those of the wall clock. */
  now(): number {
    return this.#read === undefined ? this.#clock.now() : this.#at(this.#read, this.#clock.monotonic())
  }

  /**
   * Reads it from the node of the key. To be called from time to time: another server may have another time, and the
   * monotonic clock stands still while a machine is suspended.
   */
  async read(key: string): Promise<void> {
    const asked = this.#clock.monotonic()
    const server = Number(await this.#connection.run(readTime, [key], []))
    if (!Number.isSafeInteger(server)) throw new Error('Redis: the response is not a time')
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
