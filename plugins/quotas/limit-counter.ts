// Counts limited calls; `failure_mode` decides about them while the store is down.
import { after, attempt, type MaybePromise } from '@svc/core'
import type { QuotasConfig } from './config.js'
import type { LimitsInUse } from './limits-in-use.js'
import type { MemoryCounts } from './store/memory/counts.js'
import type { QuotaStore } from './store/token-bucket.js'
import { instantOf } from './stores.js'

export interface Count {
  readonly count: number
  readonly resetAt: number
  /** Gives the count back to the store that took it. */
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

  /** Like `QuotaAdapter.takeToken`; undefined allows the call. Throws or rejects if the call must be refused. */
  takeToken(tenant: string, key: string, rate: number, burst: number | undefined) {
    return this.#count(
      () =>
        after(this.#store.takeToken(tenant, key, rate, burst), ({ tokens, resetAt }) => {
          return { tokens, resetAt: instantOf(resetAt) }
        }),
      (local) => local.takeToken(tenant, key, rate, burst),
    )
  }

  /** Like `QuotaAdapter.incrDaily`; undefined allows the call. Throws or rejects if the call must be refused. */
  incrDaily(tenant: string, key: string, limit: number): MaybePromise<Count | undefined> {
    return this.#count<Count>(
      () =>
        after(this.#store.incrDaily(tenant, key, limit), ({ count, resetAt }) => {
          // When the store goes down, the local count continues from here.
          this.#local?.raiseTo(tenant, key, Math.min(count, limit))
          const instant = instantOf(resetAt)
          this.#inUse.note({ tenant, key, used: Math.min(count, limit), limit, resetAt: instant })
          const refund = () => this.#refund(tenant, key, instant - 1)
          return { count, resetAt: instant, refund: this.#store.refundDaily && refund }
        }),
      (local) => {
        const { count, resetAt } = local.incrDaily(tenant, key, limit)
        return { count, resetAt, refund: () => local.refundDaily(tenant, key, resetAt - 1) }
      },
    )
  }

  #count<T>(
    inStore: () => MaybePromise<T>,
    inProcess: (local: MemoryCounts) => T,
  ): MaybePromise<T | undefined> {
    return attempt(inStore, (error) => {
      if (this.#failureMode === 'closed') throw error
      return this.#local && inProcess(this.#local)
    })
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
