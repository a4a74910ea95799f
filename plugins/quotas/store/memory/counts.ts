// Counts in the memory of this process, for gateways of one process: they are lost when it ends.
import type { QuotaAdapter } from '@svc/core'
import { checkDailyLimit, checkedSize, keyOf, type QuotaStore, TokenBucket } from '../token-bucket.js'
import { DailyCounts } from './daily-counts.js'
import { TenantKeys } from './tenant-keys.js'

export interface MemoryCountsOptions {
  /** Milliseconds since the epoch, for operations without `now`. */
  readonly now?: () => number
  /** The most buckets, and the most counts; further ones are refused. 1,000,000 each by default. */
  readonly maxKeys?: number
  /** The most of each that one tenant may have; 100,000 by default. */
  readonly maxKeysPerTenant?: number
}

interface TenantBucket {
  readonly tenant: string
  readonly bucket: TokenBucket
}

/** Deletes buckets that are full again, as they equal new ones, and days other than today and its neighbours. */
export class MemoryCounts implements QuotaStore {
  readonly inProcess = true
  #now: () => number
  #maxKeys: number
  #maxKeysPerTenant: number
  #counts = new DailyCounts()
  #buckets = new Map<string, TenantBucket>()
  #bucketOwners = new TenantKeys()
  #sweeper = this.#buckets.entries()

  constructor({ now = Date.now, maxKeys = 1_000_000, maxKeysPerTenant = 100_000 }: MemoryCountsOptions = {}) {
    this.#now = now
    this.#maxKeys = maxKeys
    this.#maxKeysPerTenant = maxKeysPerTenant
  }

  /** How many buckets and counts are kept. */
  get size(): number {
    return this.#buckets.size + this.#counts.size
  }

  incrDaily(tenant: string, tool: string, limit: number, now = this.#now()) {
    checkDailyLimit(limit)
    const key = keyOf(tenant, tool)
    const fault = this.#countFault(tenant, key, now)
    if (fault !== undefined) throw fault
    return this.#counts.increment(tenant, key, limit, now)
  }

  takeToken(tenant: string, tool: string, ratePerSec: number, burst?: number, now = this.#now()) {
    const size = checkedSize(ratePerSec, burst)
    this.#sweep(now)
    const key = keyOf(tenant, tool)
    const known = this.#buckets.get(key)?.bucket
    if (known !== undefined) return known.take(ratePerSec, size, now)
    const fault = this.#full(this.#buckets.size, this.#bucketOwners.of(tenant))
    if (fault !== undefined) throw fault
    const bucket = new TokenBucket(size, now)
    this.#buckets.set(key, { tenant, bucket })
    this.#bucketOwners.add(tenant)
    return bucket.take(ratePerSec, size, now)
  }

  refundDaily(tenant: string, tool: string, now = this.#now()): void {
    this.#counts.decrement(tenant, keyOf(tenant, tool), now)
  }

  /** Raises the count to `count`, the last one of another store; never lowers it. */
  observe(tenant: string, tool: string, count: number, now = this.#now()): void {
    const key = keyOf(tenant, tool)
    if (this.#countFault(tenant, key, now) === undefined) this.#counts.raise(tenant, key, count, now)
  }

  // Checks two buckets for at most one new one, so that the sweep passes all of them again and again.
  #sweep(now: number): void {
    for (let checks = 0; checks < 2; checks++) {
      const { done, value } = this.#sweeper.next()
      if (done) {
        this.#sweeper = this.#buckets.entries()
        return
      }
      const [key, { tenant, bucket }] = value
      if (bucket.fullAt > now) continue
      this.#buckets.delete(key)
      this.#bucketOwners.remove(tenant)
    }
  }

  /** Why no count can be kept under the key. */
  #countFault(tenant: string, key: string, now: number): Error | undefined {
    if (this.#counts.has(key, now)) return undefined
    return this.#full(this.#counts.size, this.#counts.keysOf(tenant, now))
  }

  // Deleting a live count would let calls through that are over their limit.
  #full(keys: number, ofTenant: number): Error | undefined {
    if (ofTenant >= this.#maxKeysPerTenant) {
      return new Error(`the memory quota store holds ${ofTenant} keys of the tenant and takes no more of it`)
    }
    if (keys < this.#maxKeys) return undefined
    return new Error(`the memory quota store holds ${keys} keys and takes no more`)
  }
}

/** The counts as a `QuotaAdapter`, for tests and for programs that bind or wrap it. */
export class MemoryQuotaAdapter implements QuotaAdapter {
  readonly inProcess = true
  #counts: MemoryCounts

  constructor(options: MemoryCountsOptions = {}) {
    this.#counts = new MemoryCounts(options)
  }

  /** How many buckets and counts are kept. */
  get size(): number {
    return this.#counts.size
  }

  async incrDaily(...args: Parameters<MemoryCounts['incrDaily']>) {
    return this.#counts.incrDaily(...args)
  }

  async takeToken(...args: Parameters<MemoryCounts['takeToken']>) {
    return this.#counts.takeToken(...args)
  }

  async refundDaily(...args: Parameters<MemoryCounts['refundDaily']>): Promise<void> {
    this.#counts.refundDaily(...args)
  }
}
