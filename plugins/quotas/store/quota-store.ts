// What the stage counts with: the counters of a store, or the adapter of a user.
import { createHash } from 'node:crypto'
import {
  after,
  type CounterLimit,
  type Counters,
  type KeyValueStore,
  type Limit,
  type MaybePromise,
  type Space,
  type StoreLifecycle,
} from '@svc/core'
import { StoreLayer } from '@svc/core/store'

const DAY_MS = 86_400_000

/** One limit of a call: a bucket, or the calls of a day of UTC. */
export interface QuotaLimit extends CounterLimit {
  readonly limit: Pick<Limit, 'key'> & { readonly [K in keyof Limit]?: Limit[K] | undefined }
}

export interface QuotaUse {
  /** Of the bucket, or of the day. */
  readonly left: number
  /** Milliseconds since the epoch. */
  readonly resetAt: number
}

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
  /** When the store began anew that had lost counts, in its time. To be asked from time to time, as a loss is noticed then. */
  lostAt?(): Promise<number | undefined>
}

export function rateLimit(limit: QuotaLimit['limit'], perSecond: number): QuotaLimit {
  return { key: nameFor(limit.key), max: bucketSize(perSecond, limit.burst), perSecond, limit }
}

export function dayLimit(limit: QuotaLimit['limit'], max: number): QuotaLimit {
  return { key: nameFor(limit.key), max, window: { ms: DAY_MS }, limit }
}

export function bucketSize(ratePerSec: number, burst: number | undefined): number {
  return Math.max(1, burst ?? ratePerSec)
}

export function isDaily({ window }: QuotaLimit): boolean {
  return window !== undefined
}

/** By these a loss is noticed, as tenants are too many for it; the nodes of a cluster share them. */
const epochs: readonly Space[] = Array.from({ length: 16 }, (_, n) => ({
  name: `epoch-${n}`,
  isTracked: true,
}))

/** In a store that all gateways share, the counters of a tenant lie on one node, as those of a call are taken together. */
export class QuotaCounters extends StoreLayer<Counters> implements QuotaStore {
  #values: KeyValueStore | undefined
  /** That of the last call, as calls in a row are often of one tenant. */
  #lastSpace = { tenant: '', space: spaceOf('') }

  /** `values` is the store of the counters, if it can lose them. */
  constructor(counters: Counters, values?: KeyValueStore) {
    super(counters)
    this.#values = values
  }

  count(tenant: string, limits: readonly QuotaLimit[], now?: number): MaybePromise<QuotaCount> {
    const taken = this.store.take(this.#space(tenant), limits, now === undefined ? undefined : { at: now })
    return after(taken, ({ isTaken: isCounted, uses, at }) => ({ isCounted, uses, at, isRefundable: true }))
  }

  #space(tenant: string): Space {
    if (tenant !== this.#lastSpace.tenant) this.#lastSpace = { tenant, space: spaceOf(tenant) }
    return this.#lastSpace.space
  }

  refund(
    tenant: string,
    limits: readonly QuotaLimit[],
    { at }: Pick<QuotaCount, 'at'>,
  ): MaybePromise<unknown> {
    const days = limits.filter(isDaily).map(({ key, window }) => ({ key, window, amount: -1 }))
    return days.length === 0 ? undefined : this.store.settle(this.#space(tenant), days, { at })
  }

  async lostAt(): Promise<number | undefined> {
    const values = this.#values
    if (values?.isRemote !== true) return undefined
    const states = await Promise.all(epochs.map((space) => values.get(space, [])))
    const times = states.flatMap(({ lostAt = [] }) => lostAt)
    return times.length === 0 ? undefined : Math.max(...times)
  }
}

/** Of one tenant, so that it does not take the room of others. */
const MAX_COUNTERS = 100_000

function spaceOf(tenant: string): Space {
  return { name: `t/${nameFor(tenant)}`, maxOwned: MAX_COUNTERS }
}

/** Braces would end the hash tag of a cluster. A name that cannot be stored is replaced by its SHA-256. */
const NAME = /^[!"$-z|~][!-z|~]{0,299}$/

function nameFor(text: string): string {
  return NAME.test(text) ? text : `#${createHash('sha256').update(text, 'utf16le').digest('base64url')}`
}
