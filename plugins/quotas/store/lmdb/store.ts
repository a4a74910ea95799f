// Counts on this host's disk, shared by its processes; they survive a restart, and a wall clock that is set.
import type { CountedLimit, LimitUse, QuotaAdapter } from '@svc/core'
import { LmdbStore } from '@svc/core/lmdb'
import { elapsed, type HostInstant, isSameBoot, thisBoot } from '@svc/core/store'
import { isRefused, only } from '../count-one-by-one.js'
import { clockWarning, oldestDay, type SeenTime, seen } from '../seen-time.js'
import { bucketSize, checkLimit, DAY_MS, dayOf, END_OF_TIME, keyOf, TokenBucket } from '../token-bucket.js'

interface LmdbQuotaOptions {
  /** On a local filesystem; made if it is missing. */
  readonly dir: string
  /** Milliseconds since the epoch, for operations without `now`. */
  readonly now?: () => number
  /** Milliseconds of a clock that all processes of the host share and nobody sets. Default: `now`. */
  readonly monotonic?: () => number
}

type Rate = Extract<CountedLimit, { unit: 'rate' }>
type Use = LimitUse & { readonly resetAt: number }

/** A day's count, a bucket, or the time that was seen last. Counts are ordered by day. */
type Key = ['count', day: number, key: string] | ['bucket', key: string] | ['time']

/** How often the time is stored at least, milliseconds. */
const SEEN_EVERY_MS = 60_000
/** How long a warning about the clock stays. */
const WARNING_MS = DAY_MS

/** Old records that each new one deletes: more than one, so that their number falls. */
const SWEPT = 2

export class LmdbQuotaAdapter implements QuotaAdapter {
  #now: () => HostInstant
  #store: LmdbStore<Key>
  #sweepFrom: Key = ['bucket', '']
  #warning: { readonly text: string; readonly at: HostInstant } | undefined

  /** Throws when the directory cannot be opened. */
  constructor({ dir, now = Date.now, monotonic = now }: LmdbQuotaOptions) {
    this.#now = () => ({ wall: now(), steady: monotonic(), boot: thisBoot })
    this.#store = new LmdbStore({ dir, name: 'the quota store' })
  }

  async incrDaily(tenant: string, tool: string, callsPerDay: number, now?: number) {
    const { value, resetAt } = only(await this.countCall(tenant, [{ unit: 'day', tool, callsPerDay }], now))
    return { count: value, resetAt }
  }

  async takeToken(tenant: string, tool: string, ratePerSec: number, burst?: number, now?: number) {
    const rate = { unit: 'rate', tool, ratePerSec, burst } as const
    const { value, resetAt } = only(await this.countCall(tenant, [rate], now))
    return { tokens: value, resetAt }
  }

  /** One transaction. */
  async countCall(tenant: string, limits: readonly CountedLimit[], now?: number): Promise<Use[]> {
    for (const limit of limits) checkLimit(limit)
    const at = this.#instant(now)
    return this.#store.transact(() => {
      const uses: Use[] = []
      for (const limit of limits) {
        const key = keyOf(tenant, limit.tool)
        const use =
          limit.unit === 'rate' ? this.#take(key, limit, at) : this.#count(key, limit.callsPerDay, at)
        uses.push(use)
        if (isRefused(limit, use)) break
      }
      return uses
    })
  }

  /** Within a transaction. */
  #count(name: string, limit: number, at: HostInstant): Use {
    const time = this.#see(at)
    const day = Math.max(dayOf(at.wall), oldestDay(time))
    const key: Key = ['count', day, name]
    const counted = this.#countAt(key)
    if (counted === 0) {
      this.#forgetDaysBefore(oldestDay(time))
      this.#store.db.put(['time'], encodeTime(time))
    }
    if (counted + 1 <= limit) this.#store.db.put(key, encode([counted + 1]))
    return { value: counted + 1, resetAt: (day + 1) * DAY_MS }
  }

  /** Within a transaction. */
  #take(name: string, { ratePerSec, burst }: Rate, at: HostInstant): Use {
    const size = bucketSize(ratePerSec, burst)
    const key: Key = ['bucket', name]
    this.#see(at)
    const stored = this.#store.db.get(key)
    if (stored === undefined) this.#forgetFullBuckets(at)
    const bucket = stored === undefined ? new TokenBucket(size, at.steady) : decodeBucket(stored, at)
    const { tokens, resetAt } = bucket.take(ratePerSec, size, at.steady)
    if (tokens >= 0) this.#store.db.put(key, encodeBucket(bucket, at))
    return { value: tokens, resetAt: Math.min(END_OF_TIME, at.wall + resetAt - at.steady) }
  }

  async refundDaily(tenant: string, tool: string, now?: number): Promise<void> {
    const key: Key = ['count', dayOf(this.#instant(now).wall), keyOf(tenant, tool)]
    await this.#store.transact(() => {
      const counted = this.#countAt(key)
      if (counted > 1) this.#store.db.put(key, encode([counted - 1]))
      else if (counted === 1) this.#store.db.remove(key)
    })
  }

  warning(): string | undefined {
    if (this.#warning !== undefined && elapsed(this.#warning.at, this.#now()) > WARNING_MS)
      this.#warning = undefined
    return this.#warning?.text
  }

  /** Safe twice; operations under way end first. */
  close(): Promise<void> {
    return this.#store.close()
  }

  /** A time that the caller gives is also that of a clock that nobody sets. */
  #instant(now: number | undefined): HostInstant {
    return now === undefined ? this.#now() : { wall: now, steady: now, boot: GIVEN }
  }

  /** Within a transaction: takes note of the time, which is stored from time to time. */
  #see(at: HostInstant): SeenTime {
    const stored = this.#store.db.get(['time'])
    const last = stored === undefined ? undefined : decodeTime(stored)
    const text = at.boot === GIVEN ? undefined : clockWarning(last, at)
    if (text !== undefined) this.#warning = { text, at }
    const time = seen(last, at)
    const isDue = last === undefined || text !== undefined || elapsed(last, at) >= SEEN_EVERY_MS
    if (isDue || last.boot !== at.boot) this.#store.db.put(['time'], encodeTime(time))
    return time
  }

  #countAt(key: Key): number {
    const stored = this.#store.db.get(key)
    return stored === undefined ? 0 : decodeCount(stored)
  }

  // Yesterday's counts stay, for calls that began before midnight and for a clock that is set back.
  #forgetDaysBefore(day: number): void {
    const old = this.#store.db.getKeys({ start: ['count', 0, ''], end: ['count', day, ''], limit: SWEPT })
    for (const key of [...old]) this.#store.db.remove(key)
  }

  // A bucket that is full again equals a new one. Each process sweeps from its own position.
  #forgetFullBuckets(at: HostInstant): void {
    const range = {
      start: this.#sweepFrom,
      exclusiveStart: true,
      end: ['bucket', '\uffff'] satisfies Key,
      limit: SWEPT,
    }
    const found = [...this.#store.db.getRange(range)]
    for (const { key, value } of found) {
      if (decodeBucket(value, at).fullAt <= at.steady) this.#store.db.remove(key)
    }
    const last = found.at(-1)
    this.#sweepFrom = found.length < SWEPT || last === undefined ? ['bucket', ''] : last.key
  }
}

/** The boot of an instant that a caller gave. */
const GIVEN = -1
/** The values on disk are little-endian doubles. */
const DOUBLE = 8

/** @throws {Error} if the bytes are not a count */
function decodeCount(bytes: Buffer): number {
  const [count = Number.NaN] = decode(bytes, 1)
  if (!(Number.isSafeInteger(count) && count > 0)) throw new Error(`a stored count is ${count}`)
  return count
}

/** Its instants are those of the monotonic clock. */
function encodeBucket({ state: { tokens, at }, fullAt }: TokenBucket, { wall, boot }: HostInstant): Buffer {
  return encode([tokens, at, fullAt, wall, boot])
}

/** The bucket in the monotonic time of `now`. @throws {Error} if the bytes are not a bucket */
function decodeBucket(bytes: Buffer, now: HostInstant): TokenBucket {
  const [tokens = Number.NaN, at = Number.NaN, fullAt = Number.NaN, wall = Number.NaN, boot = Number.NaN] =
    decode(bytes, 5)
  if (![tokens, at, fullAt, wall, boot].every(Number.isFinite))
    throw new Error('a stored bucket is not a bucket')
  const taken = { wall, steady: at, boot }
  const takenAt = isSameBoot(taken, now) ? at : now.steady - elapsed(taken, now)
  const bucket = new TokenBucket(tokens, takenAt)
  bucket.fullAt = takenAt + fullAt - at
  return bucket
}

function encodeTime({ wall, steady, boot, verified }: SeenTime): Buffer {
  return encode([wall, steady, boot, verified])
}

/** @throws {Error} if the bytes are not a time */
function decodeTime(bytes: Buffer): SeenTime {
  const [wall = Number.NaN, steady = Number.NaN, boot = Number.NaN, verified = Number.NaN] = decode(bytes, 4)
  if (![wall, steady, boot, verified].every(Number.isFinite)) throw new Error('a stored time is not a time')
  return { wall, steady, boot, verified }
}

function encode(numbers: readonly number[]): Buffer {
  const bytes = Buffer.alloc(numbers.length * DOUBLE)
  numbers.forEach((number, i) => {
    bytes.writeDoubleLE(number, i * DOUBLE)
  })
  return bytes
}

function decode(bytes: Buffer, length: number): number[] {
  if (bytes.length !== length * DOUBLE)
    throw new Error(`a stored record of ${bytes.length} bytes cannot be read`)
  return Array.from({ length }, (_, i) => bytes.readDoubleLE(i * DOUBLE))
}
