// Counts on this host's disk, shared by its processes; they survive a restart.
import type { QuotaAdapter } from '@svc/core'
import { LmdbStore } from '@svc/core/lmdb'
import { checkDailyLimit, checkedSize, DAY_MS, dayOf, keyOf, TokenBucket } from '../token-bucket.js'

interface LmdbQuotaOptions {
  /** On a local filesystem; made if it is missing. */
  readonly dir: string
  /** Milliseconds since the epoch, for operations without `now`. */
  readonly now?: () => number
}

/** A day's count, or a bucket. Counts are ordered by day. */
type Key = ['count', day: number, key: string] | ['bucket', key: string]

/** Old records that each new one deletes: more than one, so that their number falls. */
const SWEPT = 2

export class LmdbQuotaAdapter implements QuotaAdapter {
  #now: () => number
  #store: LmdbStore<Key>
  #sweepFrom: Key = ['bucket', '']

  /** Throws when the directory cannot be opened. */
  constructor({ dir, now = Date.now }: LmdbQuotaOptions) {
    this.#now = now
    this.#store = new LmdbStore({ dir, name: 'the quota store' })
  }

  async incrDaily(tenant: string, tool: string, limit: number, now = this.#now()) {
    checkDailyLimit(limit)
    const day = dayOf(now)
    const key: Key = ['count', day, keyOf(tenant, tool)]
    const count = await this.#store.transact(() => {
      const counted = this.#countAt(key)
      if (counted === 0) this.#forgetDaysBefore(day - 1)
      if (counted + 1 <= limit) this.#store.db.put(key, encodeCount(counted + 1))
      return counted + 1
    })
    return { count, resetAt: (day + 1) * DAY_MS }
  }

  async takeToken(tenant: string, tool: string, ratePerSec: number, burst?: number, now = this.#now()) {
    const size = checkedSize(ratePerSec, burst)
    const key: Key = ['bucket', keyOf(tenant, tool)]
    return this.#store.transact(() => {
      const stored = this.#store.db.get(key)
      if (stored === undefined) this.#forgetFullBuckets(now)
      const bucket = stored === undefined ? new TokenBucket(size, now) : decodeBucket(stored)
      const response = bucket.take(ratePerSec, size, now)
      if (response.tokens >= 0) this.#store.db.put(key, encodeBucket(bucket))
      return response
    })
  }

  async refundDaily(tenant: string, tool: string, now = this.#now()): Promise<void> {
    const key: Key = ['count', dayOf(now), keyOf(tenant, tool)]
    await this.#store.transact(() => {
      const counted = this.#countAt(key)
      if (counted > 1) this.#store.db.put(key, encodeCount(counted - 1))
      else if (counted === 1) this.#store.db.remove(key)
    })
  }

  /** Safe twice; operations under way end first. */
  close(): Promise<void> {
    return this.#store.close()
  }

  #countAt(key: Key): number {
    const stored = this.#store.db.get(key)
    return stored === undefined ? 0 : decodeCount(stored)
  }

  // Yesterday's counts stay, for calls that began before midnight.
  #forgetDaysBefore(day: number): void {
    const old = this.#store.db.getKeys({ start: ['count', 0, ''], end: ['count', day, ''], limit: SWEPT })
    for (const key of [...old]) this.#store.db.remove(key)
  }

  // A bucket that is full again equals a new one. Each process sweeps from its own position.
  #forgetFullBuckets(now: number): void {
    const range = {
      start: this.#sweepFrom,
      exclusiveStart: true,
      end: ['bucket', '\uffff'] satisfies Key,
      limit: SWEPT,
    }
    const found = [...this.#store.db.getRange(range)]
    for (const { key, value } of found) if (decodeBucket(value).fullAt <= now) this.#store.db.remove(key)
    const last = found.at(-1)
    this.#sweepFrom = found.length < SWEPT || last === undefined ? ['bucket', ''] : last.key
  }
}

/** A count and a bucket on disk are little-endian doubles. */
const DOUBLE = 8

function encodeCount(count: number): Buffer {
  return encode([count])
}

/** @throws {Error} if the bytes are not a count */
function decodeCount(bytes: Buffer): number {
  const [count = Number.NaN] = decode(bytes, 1)
  if (!(Number.isSafeInteger(count) && count > 0)) throw new Error(`a stored count is ${count}`)
  return count
}

function encodeBucket({ state: { tokens, at }, fullAt }: TokenBucket): Buffer {
  return encode([tokens, at, fullAt])
}

/** @throws {Error} if the bytes are not a bucket */
function decodeBucket(bytes: Buffer): TokenBucket {
  const [tokens = Number.NaN, at = Number.NaN, fullAt = Number.NaN] = decode(bytes, 3)
  if (![tokens, at, fullAt].every(Number.isFinite)) throw new Error('a stored bucket is not a bucket')
  const bucket = new TokenBucket(tokens, at)
  bucket.fullAt = fullAt
  return bucket
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
