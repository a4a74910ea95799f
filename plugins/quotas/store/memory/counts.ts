// Counts in the memory of this process, for gateways of one process: they are lost when it ends.
import type { CountedLimit, LimitUse, QuotaAdapter } from '@svc/core'
import { type HostInstant, Tally } from '@svc/core/store'
import { isRefused } from '../count-one-by-one.js'
import { oldestDay, type SeenTime, seen } from '../seen-time.js'
import {
  bucketSize,
  checkDailyLimit,
  checkedSize,
  checkLimit,
  DAY_MS,
  dayOf,
  END_OF_TIME,
  instantOf,
  keyOf,
  type QuotaStore,
  TokenBucket,
} from '../token-bucket.js'

export interface MemoryCountsOptions {
  /** Milliseconds since the epoch, for operations without `now`. */
  readonly now?: () => number
  /** Milliseconds of a clock that nobody sets. Default: `now`. */
  readonly monotonic?: () => number
  /** Maximum number of buckets, and of counts; further ones are refused. Default: 1,000,000 each. */
  readonly maxKeys?: number
  /** Maximum number of each for one tenant. Default: 100,000. */
  readonly maxKeysPerTenant?: number
}

interface DayCount {
  readonly day: number
  count: number
}

/** Deletes buckets that are full again, as they equal new ones, and days before yesterday. Holds if the wall clock is set. */
export class MemoryCounts implements QuotaStore {
  readonly inProcess = true
  #now: () => HostInstant
  #seen: SeenTime | undefined
  #counts: OwnedEntries<DayCount>
  #buckets: OwnedEntries<TokenBucket>

  constructor({
    now = Date.now,
    monotonic = now,
    maxKeys = 1_000_000,
    maxKeysPerTenant = 100_000,
  }: MemoryCountsOptions = {}) {
    this.#now = () => ({ wall: now(), steady: monotonic(), boot: 0 })
    // Yesterday stays, for calls that began before midnight and for a clock that is set back.
    const isOldDay = ({ day }: DayCount, at: number) => day < dayOf(at) - 1
    this.#counts = new OwnedEntries(maxKeys, maxKeysPerTenant, isOldDay)
    this.#buckets = new OwnedEntries(maxKeys, maxKeysPerTenant, ({ fullAt }, at) => fullAt <= at)
  }

  /** How many buckets and counts are kept. */
  get size(): number {
    return this.#buckets.size + this.#counts.size
  }

  incrDaily(tenant: string, tool: string, limit: number, now?: number) {
    checkDailyLimit(limit)
    const { value: count, resetAt } = this.#countDay(tenant, tool, limit, this.#instant(now))
    return { count, resetAt }
  }

  takeToken(tenant: string, tool: string, ratePerSec: number, burst?: number, now?: number) {
    const size = checkedSize(ratePerSec, burst)
    const { value: tokens, resetAt } = this.#take(tenant, tool, ratePerSec, size, this.#instant(now))
    return { tokens, resetAt }
  }

  countCall(tenant: string, limits: readonly CountedLimit[], now?: number): readonly LimitUse[] {
    for (const limit of limits) checkLimit(limit)
    const at = this.#instant(now)
    const uses: LimitUse[] = []
    try {
      for (const limit of limits) {
        const use =
          limit.unit === 'rate'
            ? this.#take(tenant, limit.tool, limit.ratePerSec, bucketSize(limit.ratePerSec, limit.burst), at)
            : this.#countDay(tenant, limit.tool, limit.callsPerDay, at)
        uses.push(use)
        if (isRefused(limit, use)) break
      }
      return uses
    } catch (error) {
      // There was no room: what was counted before is given back.
      for (const [i, limit] of limits.slice(0, uses.length).entries())
        if (limit.unit === 'day') this.refundDaily(tenant, limit.tool, instantOf(uses[i]?.resetAt ?? 0) - 1)
      throw error
    }
  }

  #countDay(tenant: string, tool: string, limit: number, at: HostInstant): LimitUse {
    const day = this.#day(at)
    const key = countKey(day, tenant, tool)
    const count = (this.#counts.get(key)?.count ?? 0) + 1
    // Over the limit the call is not counted.
    if (count <= limit) this.#raise(key, tenant, day, count)
    return { value: count, resetAt: (day + 1) * DAY_MS }
  }

  #take(
    tenant: string,
    tool: string,
    ratePerSec: number,
    size: number,
    { wall, steady }: HostInstant,
  ): LimitUse {
    this.#buckets.sweep(steady)
    const key = keyOf(tenant, tool)
    const bucket = this.#buckets.get(key) ?? this.#buckets.add(key, tenant, new TokenBucket(size, steady))
    const { tokens, resetAt } = bucket.take(ratePerSec, size, steady)
    return { value: tokens, resetAt: Math.min(END_OF_TIME, wall + resetAt - steady) }
  }

  refundDaily(tenant: string, tool: string, now?: number): void {
    const day = now === undefined ? this.#day(this.#now()) : dayOf(now)
    const key = countKey(day, tenant, tool)
    const entry = this.#counts.get(key)
    if (entry === undefined) return
    entry.count--
    if (entry.count === 0) this.#counts.delete(key)
  }

  /** Raises the count to `count`, the last one of another store, unless there is no room; never lowers it. */
  raiseTo(tenant: string, tool: string, count: number): void {
    const day = this.#day(this.#now())
    const key = countKey(day, tenant, tool)
    const entry = this.#counts.get(key)
    if (entry === undefined && this.#counts.fullError(ownerOf(day, tenant)) !== undefined) return
    if (count > (entry?.count ?? 0)) this.#raise(key, tenant, day, count)
  }

  #instant(now: number | undefined): HostInstant {
    return now === undefined ? this.#now() : { wall: now, steady: now, boot: 0 }
  }

  /** The day that a call counts for: none that is over begins anew. */
  #day(at: HostInstant): number {
    this.#seen = seen(this.#seen, at)
    return Math.max(dayOf(at.wall), oldestDay(this.#seen))
  }

  #raise(key: string, tenant: string, day: number, count: number): void {
    const entry = this.#counts.get(key)
    if (entry !== undefined) {
      entry.count = count
      return
    }
    this.#counts.sweep(this.#seen?.verified ?? 0)
    this.#counts.add(key, ownerOf(day, tenant), { day, count })
  }
}

function countKey(day: number, tenant: string, tool: string): string {
  return `${day} ${keyOf(tenant, tool)}`
}

/** The limit applies to each day of a tenant separately. */
function ownerOf(day: number, tenant: string): string {
  return `${day} ${tenant}`
}

/** A map with a limited number of entries per owner. */
class OwnedEntries<Value> {
  #max: number
  #maxOfOwner: number
  #isOver: (value: Value, now: number) => boolean
  #entries = new Map<string, { readonly owner: string; readonly value: Value }>()
  #owners = new Tally()
  #sweeper = this.#entries.entries()

  constructor(max: number, maxOfOwner: number, isOver: (value: Value, now: number) => boolean) {
    this.#max = max
    this.#maxOfOwner = maxOfOwner
    this.#isOver = isOver
  }

  get size(): number {
    return this.#entries.size
  }

  get(key: string): Value | undefined {
    return this.#entries.get(key)?.value
  }

  /** @throws {Error} when there is no room: deleting a live entry would let calls through that are over their limit */
  add(key: string, owner: string, value: Value): Value {
    const full = this.fullError(owner)
    if (full !== undefined) throw full
    this.#entries.set(key, { owner, value })
    this.#owners.add(owner)
    return value
  }

  delete(key: string): void {
    const owner = this.#entries.get(key)?.owner
    if (owner === undefined) return
    this.#entries.delete(key)
    this.#owners.remove(owner)
  }

  /** Checks two entries for at most one new one, so that all of them are checked again and again. */
  sweep(now: number): void {
    for (let checks = 0; checks < 2; checks++) {
      const { done, value } = this.#sweeper.next()
      if (done) {
        this.#sweeper = this.#entries.entries()
        return
      }
      const [key, entry] = value
      if (this.#isOver(entry.value, now)) this.delete(key)
    }
  }

  fullError(owner: string): Error | undefined {
    const owned = this.#owners.of(owner)
    if (owned >= this.#maxOfOwner) {
      return new Error(`the memory quota store holds ${owned} keys of the tenant and takes no more of it`)
    }
    if (this.size < this.#max) return undefined
    return new Error(`the memory quota store holds ${this.size} keys and takes no more`)
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
