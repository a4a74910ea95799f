// Counts limited calls; `failure_mode` decides about them while the store is down.
import { after, attempt, type CountedLimit, isPending, type LimitUse, type MaybePromise } from '@svc/core'
import type { QuotasConfig } from './config.js'
import type { LimitsInUse } from './limits-in-use.js'
import { countOneByOne, isRefused } from './store/count-one-by-one.js'
import type { MemoryCounts } from './store/memory/counts.js'
import { instantOf, type QuotaStore } from './store/token-bucket.js'

/** The counted state of a limit of a call. */
export interface Counted {
  /** The tokens left of a rate, or the count of a day. */
  readonly value: number
  /** Milliseconds since the epoch. */
  readonly resetAt: number
  /** Gives the count of a day back to the store that took it. */
  readonly refund: (() => MaybePromise<void>) | undefined
}

export class LimitCounter {
  #store: QuotaStore
  #failureMode: QuotasConfig['failure_mode']
  #local: MemoryCounts | undefined
  #inUse: LimitsInUse

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
  }

  /**
   * Counts a call against its limits, up to the first that refuses. Undefined allows the call uncounted. Throws or rejects
   * if the call must be refused.
   */
  count(tenant: string, limits: readonly CountedLimit[]): MaybePromise<readonly Counted[] | undefined> {
    const store = this.#store
    const recover = (error: unknown) => {
      if (this.#failureMode === 'closed') throw error
      return this.#local && this.#inProcess(tenant, limits, this.#local)
    }
    try {
      const uses = store.countCall?.(tenant, limits) ?? countOneByOne(store, tenant, limits)
      if (isPending(uses)) return uses.then((counted) => this.#all(tenant, limits, counted)).catch(recover)
      return this.#all(tenant, limits, uses)
    } catch (error) {
      return recover(error)
    }
  }

  #all(tenant: string, limits: readonly CountedLimit[], uses: readonly LimitUse[]): Counted[] {
    return forEachUse(limits, uses, (limit, use) => this.#counted(tenant, limit, use))
  }

  #counted(tenant: string, limit: CountedLimit, use: LimitUse): Counted {
    const { value } = use
    const resetAt = instantOf(use.resetAt)
    if (limit.unit === 'rate') return { value, resetAt, refund: undefined }
    const { tool: key, callsPerDay } = limit
    const used = Math.min(value, callsPerDay)
    // When the store goes down, the local count continues from here.
    this.#local?.raiseTo(tenant, key, used)
    this.#inUse.note({ tenant, key, used, limit: callsPerDay, resetAt })
    const refund = () => this.#refund(tenant, key, resetAt - 1)
    return { value, resetAt, refund: this.#store.refundDaily && refund }
  }

  #inProcess(
    tenant: string,
    limits: readonly CountedLimit[],
    local: MemoryCounts,
  ): MaybePromise<readonly Counted[]> {
    return after(countOneByOne(local, tenant, limits), (uses) =>
      forEachUse(limits, uses, ({ unit, tool }, { value, resetAt: end }) => {
        const resetAt = instantOf(end)
        const refund = () => local.refundDaily(tenant, tool, resetAt - 1)
        return { value, resetAt, refund: unit === 'day' ? refund : undefined }
      }),
    )
  }

  #refund(tenant: string, key: string, now: number): MaybePromise<void> {
    return attempt(
      () => this.#store.refundDaily?.(tenant, key, now),
      (error) => {
        // A count too many may refuse a later call; it must not fail a call that is allowed.
        if (this.#failureMode === 'closed') throw error
      },
    )
  }
}

/** @throws {TypeError} if a limit after which the call goes on has no use */
function forEachUse(
  limits: readonly CountedLimit[],
  uses: readonly LimitUse[],
  counted: (limit: CountedLimit, use: LimitUse) => Counted,
): Counted[] {
  const all: Counted[] = []
  for (const [i, limit] of limits.entries()) {
    const use = uses[i]
    if (use === undefined) throw new TypeError(`countCall returned ${uses.length} of ${limits.length} uses`)
    all.push(counted(limit, use))
    if (isRefused(limit, use)) break
  }
  return all
}
