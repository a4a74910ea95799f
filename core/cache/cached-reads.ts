// Values that are read once for all who ask at the same time, and are kept for a time.
import type { Clock } from '../plugin/tokens.js'
import { BoundedMap } from './bounded-map.js'

interface Kept<Value> {
  readonly reading: Promise<Value>
  /** Monotonic time; undefined while the value is being read. */
  until?: number
  hasFailed?: true
  /** The value that was read last. */
  last: Value | undefined
}

export interface Reading<Value> {
  read(): Promise<Value>
  /** Time for which the value is kept, in milliseconds. */
  keptMs(value: Value): number
  /** Time for which a failure is not tried again, in milliseconds. */
  readonly failureMs?: number
}

export class CachedReads<Value> {
  #clock: Pick<Clock, 'monotonic'>
  /** The value that was used longest ago is first. */
  #kept: BoundedMap<string, Kept<Value>>

  constructor(clock: Pick<Clock, 'monotonic'>, maxEntries: number) {
    this.#clock = clock
    this.#kept = new BoundedMap(maxEntries)
  }

  /** The value of `key`, read if none is kept. Rejects as `read` does. */
  of(key: string, { read, keptMs, failureMs = 0 }: Reading<Value>): Promise<Value> {
    const known = this.#kept.get(key)
    const isCurrent = known?.until === undefined || this.#clock.monotonic() < known.until
    const isUsed = isCurrent && (known?.hasFailed !== true || failureMs > 0)
    const kept: Kept<Value> = known !== undefined && isUsed ? known : { reading: read(), last: known?.last }
    this.#kept.set(key, kept)
    if (kept === known) return kept.reading
    const keepFor = (ms: number): void => {
      // `expire` has set the time of a value that changed while it was being read.
      kept.until ??= this.#clock.monotonic() + ms
    }
    kept.reading.then(
      (value) => {
        kept.last = value
        keepFor(keptMs(value))
      },
      () => {
        kept.hasFailed = true
        keepFor(failureMs)
      },
    )
    return kept.reading
  }

  /** The value that was read last, whatever its age. */
  last(key: string): Value | undefined {
    return this.#kept.get(key)?.last
  }

  /** Lets the next caller read again. */
  expire(key: string): void {
    const kept = this.#kept.get(key)
    if (kept !== undefined) kept.until = Number.NEGATIVE_INFINITY
  }

  delete(key: string): void {
    this.#kept.delete(key)
  }

  /** Removes this value, unless it was replaced or is being read again. */
  drop(key: string, value: Value): void {
    const { last, until } = this.#kept.get(key) ?? {}
    if (last === value && until !== undefined) this.#kept.delete(key)
  }

  /** Removes the values whose time is over, for owners that do not ask for the last one. */
  dropExpired(): void {
    const now = this.#clock.monotonic()
    for (const [key, { until }] of this.#kept) if (until !== undefined && until <= now) this.#kept.delete(key)
  }

  clear(): void {
    this.#kept.clear()
  }

  /** The values that were read and not replaced, however old. */
  current(): Value[] {
    return [...this.#kept.values()].flatMap(({ until, hasFailed, last }) =>
      until === undefined || hasFailed === true || last === undefined ? [] : [last],
    )
  }

  /** The values, including those that are being read and do not fail. */
  async all(): Promise<Value[]> {
    const settled = await Promise.allSettled([...this.#kept.values()].map(({ reading }) => reading))
    return settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  }
}
