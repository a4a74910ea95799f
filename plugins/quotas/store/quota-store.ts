// What the stage counts with: the counters of a store, or the adapter of a user.
import {
  after,
  type CounterLimit,
  type Counters,
  type CounterUse,
  type KeyValueStore,
  type Limit,
  type MaybePromise,
  type Space,
  type StoreLifecycle,
} from '@svc/core'
import { readLoss, StoreLayer, storableName, trackedSpaces } from '@svc/core/store'

const DAY_MS = 86_400_000
/** A tenant has at most this many, so that it does not take the room of others. */
const MAX_COUNTERS = 100_000

/** One limit of a call: a bucket, or the calls of a day of UTC. */
export interface QuotaLimit extends CounterLimit {
  readonly limit: Pick<Limit, 'key'> & { readonly [K in keyof Limit]?: Limit[K] | undefined }
}

export type QuotaUse = Pick<CounterUse, 'left' | 'resetAt'>

/** A call that was counted against its limits, or of which none was counted. */
export interface QuotaCount {
  readonly isCounted: boolean
  /** In the order of the limits; of a call that was not counted up to the first that refuses. */
  readonly uses: readonly QuotaUse[]
  /** When it was counted. */
  readonly at: number
  /** Whether its days can be given back. */
  readonly isRefundable: boolean
}

export interface QuotaStore extends StoreLifecycle {
  /** `now` is in milliseconds since the epoch; by default the time of the store. */
  count(tenant: string, limits: readonly QuotaLimit[], now?: number): MaybePromise<QuotaCount>
  /** Gives back the days of a call; its tokens stay taken. */
  refund(
    tenant: string,
    limits: readonly QuotaLimit[],
    counted: Pick<QuotaCount, 'uses' | 'at'>,
  ): MaybePromise<unknown>
  /** As `readLoss`. */
  lostAt?(): Promise<number | undefined>
}

export function rateLimit(limit: QuotaLimit['limit'], perSecond: number): QuotaLimit {
  return { key: storableName(limit.key), max: bucketSize(perSecond, limit.burst), perSecond, limit }
}

export function dayLimit(limit: QuotaLimit['limit'], max: number): QuotaLimit {
  return { key: storableName(limit.key), max, window: { ms: DAY_MS }, limit }
}

export function bucketSize(ratePerSec: number, burst: number | undefined): number {
  return Math.max(1, burst ?? ratePerSec)
}

export function isDaily({ window }: QuotaLimit): boolean {
  return window !== undefined
}

/** By these a loss is noticed, as tenants are too many for it. */
const epochs = trackedSpaces('epoch')

/** In a store that all gateways share, the counters of a tenant lie on one node, as those of a call are taken together. */
export class QuotaCounters extends StoreLayer<Counters> implements QuotaStore {
  #values: KeyValueStore | undefined
  /** That of the last call, as calls in a row are often of one tenant. */
  #lastSpace: { readonly tenant: string; readonly space: Space } | undefined

  /** `values` is the store of the counters, if it can lose them. */
  constructor(counters: Counters, values?: KeyValueStore) {
    super(counters)
    this.#values = values
  }

  count(tenant: string, limits: readonly QuotaLimit[], now?: number): MaybePromise<QuotaCount> {
    const taken = this.store.take(this.#space(tenant), limits, now === undefined ? undefined : { at: now })
    return after(taken, ({ isTaken: isCounted, uses, at }) => ({ isCounted, uses, at, isRefundable: true }))
  }

  refund(tenant: string, limits: readonly QuotaLimit[], { at }: Pick<QuotaCount, 'at'>) {
    const days = limits.filter(isDaily).map(({ key, window }) => ({ key, window, amount: -1 }))
    return days.length === 0 ? undefined : this.store.settle(this.#space(tenant), days, { at })
  }

  async lostAt(): Promise<number | undefined> {
    return this.#values && readLoss(this.#values, epochs)
  }

  #space(tenant: string): Space {
    if (tenant !== this.#lastSpace?.tenant)
      this.#lastSpace = { tenant, space: { name: `t/${storableName(tenant)}`, maxOwned: MAX_COUNTERS } }
    return this.#lastSpace.space
  }
}
