// Counts in the memory of this process, for tests and for gateways of one process: they are lost when it ends.
import type { QuotaAdapter } from '@svc/core'
import { checkDailyLimit } from '../day.js'
import { keyOf } from '../key.js'
import { checkedSize, TokenBucket } from '../token-bucket.js'
import { DailyCounts } from './daily-counts.js'

export interface MemoryQuotaOptions {
  /** Milliseconds since the epoch, for operations without `now`. */
  readonly now?: () => number
  /** The most buckets, and the most counts; further ones are refused. 1,000,000 each by default. */
  readonly maxKeys?: number
}

/** Deletes buckets that are full again, as they equal new ones, and days other than today and its neighbours. */
export class MemoryQuotaAdapter implements QuotaAdapter {
  readonly inProcess = true
  #now: () => number
  #maxKeys: number
  #counts = new DailyCounts()
  #buckets = new Map<string, TokenBucket>()
  #sweeper = this.#buckets.entries()

  constructor({ now = Date.now, maxKeys = 1_000_000 }: MemoryQuotaOptions = {}) {
    this.#now = now
    this.#maxKeys = maxKeys
  }

  /** How many buckets and counts are kept. */
  get size(): number {
    return this.#buckets.size + this.#counts.size
  }

  async incrDaily(tenant: string, tool: string, limit: number, now = this.#now()) {
    checkDailyLimit(limit)
    const key = keyOf(tenant, tool)
    if (this.#counts.size >= this.#maxKeys && !this.#counts.has(key, now)) throw this.#full()
    return this.#counts.increment(key, limit, now)
  }

  async takeToken(tenant: string, tool: string, ratePerSec: number, burst?: number, now = this.#now()) {
    const size = checkedSize(ratePerSec, burst)
    this.#sweep(now)
    const key = keyOf(tenant, tool)
    let bucket = this.#buckets.get(key)
    if (bucket === undefined) {
      if (this.#buckets.size >= this.#maxKeys) throw this.#full()
      bucket = new TokenBucket(size, now)
      this.#buckets.set(key, bucket)
    }
    return bucket.take(ratePerSec, size, now)
  }

  async refundDaily(tenant: string, tool: string, now = this.#now()): Promise<void> {
    this.#counts.decrement(keyOf(tenant, tool), now)
  }

  /** Raises the count to `count`, the last one of another store; never lowers it. */
  observe(tenant: string, tool: string, count: number, now = this.#now()): void {
    const key = keyOf(tenant, tool)
    if (this.#counts.size < this.#maxKeys || this.#counts.has(key, now)) this.#counts.raise(key, count, now)
  }

  // Checks two buckets for at most one new one, so that the sweep passes all of them again and again.
  #sweep(now: number): void {
    for (let checks = 0; checks < 2; checks++) {
      const { done, value } = this.#sweeper.next()
      if (done) {
        this.#sweeper = this.#buckets.entries()
        return
      }
      const [key, bucket] = value
      if (bucket.fullAt <= now) this.#buckets.delete(key)
    }
  }

  // Deleting a live count would let calls through that are over their limit.
  #full(): Error {
    return new Error(`the memory quota store holds ${this.#maxKeys} keys and takes no more`)
  }
}
