// Counts limited calls; `failure_mode` decides about them while the store is down.
import { attempt, type CountedLimit, isPending, type LimitUse, type MaybePromise } from '@svc/core'
import type { QuotasConfig } from './config.js'
import type { LimitsInUse } from './limits-in-use.js'
import { countOneByOne, isRefused } from './store/count-one-by-one.js'
import type { MemoryCounts } from './store/memory/counts.js'
import { instantOf, type QuotaStore } from './store/token-bucket.js'

type Refund = (tenant: string, key: string, now: number) => MaybePromise<void>

/** A call that was counted against its limits. */
export interface Counted {
  /** In the order of the limits, up to the first that refuses. */
  readonly uses: readonly LimitUse[]
  /** Gives the count of a day back to the store that took it; undefined without one, or if the store cannot. */
  readonly refund: Refund | undefined
}

export class LimitCounter {
  #store: QuotaStore
  #failureMode: QuotasConfig['failure_mode']
  #local: MemoryCounts | undefined
  #inUse: LimitsInUse
  #refund: Refund | undefined
  #refundLocal: Refund = (tenant, key, now) => this.#local?.refundDaily(tenant, key, now)

  /** `local` is the counter for the failure mode `local`. */
  constructor(
    store: QuotaStore,
    failureMode: QuotasConfig['failure_mode'],
    inUse: LimitsInUse,
    local: MemoryCounts | undefined,
  ) {
    this.#store = store
    this.#failureMode = failureMode
    this.#inUse = inUse
    this.#local = local
    if (store.refundDaily !== undefined) this.#refund = (...args) => this.#refundStored(...args)
  }

  /**
   * Counts a call against its limits, up to the first that refuses. Undefined allows the call uncounted. Throws or rejects
   * if the call must be refused.
   */
  count(tenant: string, limits: readonly CountedLimit[]): MaybePromise<Counted | undefined> {
    const store = this.#store
    try {
      const uses = store.countCall?.(tenant, limits) ?? countOneByOne(store, tenant, limits)
      if (!isPending(uses)) return this.#stored(tenant, limits, uses)
      return uses
        .then((counted) => this.#stored(tenant, limits, counted))
        .catch((error: unknown) => this.#recover(tenant, limits, error))
    } catch (error) {
      return this.#recover(tenant, limits, error)
    }
  }

  #recover(tenant: string, limits: readonly CountedLimit[], error: unknown): Counted | undefined {
    if (this.#failureMode === 'closed') throw error
    return this.#local && { uses: this.#local.countCall(tenant, limits), refund: this.#refundLocal }
  }

  /** @throws {TypeError} if a limit after which the call goes on has no use */
  #stored(tenant: string, limits: readonly CountedLimit[], uses: readonly LimitUse[]): Counted {
    let refund: Refund | undefined
    for (let i = 0; i < limits.length; i++) {
      const limit = limits[i] as CountedLimit
      const use = uses[i]
      if (use === undefined) throw new TypeError(`countCall returned ${uses.length} of ${limits.length} uses`)
      if (limit.unit === 'day') this.#noteDay(tenant, limit.tool, limit.callsPerDay, use)
      if (isRefused(limit, use)) return { uses: uses.slice(0, i + 1), refund }
      if (limit.unit === 'day') refund = this.#refund
    }
    return { uses, refund }
  }

  #noteDay(tenant: string, key: string, limit: number, { value, resetAt }: LimitUse): void {
    const used = Math.min(value, limit)
    // When the store goes down, the local count continues from here.
    this.#local?.raiseTo(tenant, key, used)
    this.#inUse.note({ tenant, key, used, limit, resetAt: instantOf(resetAt) })
  }

  #refundStored(tenant: string, key: string, now: number): MaybePromise<void> {
    return attempt(
      () => this.#store.refundDaily?.(tenant, key, now),
      (error) => {
        // A count too many may refuse a later call; it must not fail a call that is allowed.
        if (this.#failureMode === 'closed') throw error
      },
    )
  }
}
