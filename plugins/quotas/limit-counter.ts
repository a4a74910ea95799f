// Counts limited calls; `failure_mode` decides about them while the store is down.
import { after, attempt, type Clock, type MaybePromise } from '@svc/core'
import { BoundedMap } from '@svc/core/store'
import type { QuotasConfig } from './config.js'
import type { LimitsInUse } from './limits-in-use.js'
import { isDaily, type QuotaCount, type QuotaLimit, type QuotaStore } from './store/quota-store.js'

/** A call that was counted, or refused, and the store that has its days. */
export interface Counted {
  readonly call: QuotaCount
  readonly store: QuotaStore
}

interface LimitCounterOptions {
  readonly store: QuotaStore
  readonly failureMode: QuotasConfig['failure_mode']
  readonly inUse: LimitsInUse
  /** The counters of this process, for the failure mode `local`. */
  readonly local: QuotaStore | undefined
  readonly clock: Pick<Clock, 'now'>
}

/** Days whose last count is known when the store goes down. */
const MAX_KNOWN = 100_000

export class LimitCounter {
  #options: LimitCounterOptions
  #known = new BoundedMap<string, { readonly used: number; readonly resetAt: number }>(MAX_KNOWN)

  constructor(options: LimitCounterOptions) {
    this.#options = options
  }

  /** Undefined allows the call uncounted. Throws or rejects if the call must be refused. */
  count(tenant: string, limits: readonly QuotaLimit[]): MaybePromise<Counted | undefined> {
    const { store, failureMode } = this.#options
    return attempt<Counted, Counted | undefined>(
      () =>
        after(store.count(tenant, limits), (call) => {
          this.#note(tenant, limits, call)
          return { call, store }
        }),
      (error) => {
        if (failureMode === 'closed') throw error
        return this.#countHere(tenant, limits)
      },
    )
  }

  /** Gives the days of a call back that was not sent. */
  refund(tenant: string, limits: readonly QuotaLimit[], { call, store }: Counted): MaybePromise<unknown> {
    return attempt(
      () => store.refund(tenant, limits, call),
      (error) => {
        // A count too many may refuse a later call; it must not fail a call that is allowed.
        if (this.#options.failureMode === 'closed') throw error
      },
    )
  }

  /** Continues from the last count of the store. */
  #countHere(tenant: string, limits: readonly QuotaLimit[]): MaybePromise<Counted | undefined> {
    const { local: store, clock } = this.#options
    if (store === undefined) return undefined
    const rest = limits.map((limit) => {
      const { used = 0, resetAt = 0 } = this.#known.get(knownKey(tenant, limit)) ?? {}
      return isDaily(limit) && resetAt > clock.now()
        ? { ...limit, max: Math.max(0, limit.max - used) }
        : limit
    })
    return after(store.count(tenant, rest), (call) => ({ call, store }))
  }

  #note(tenant: string, limits: readonly QuotaLimit[], { uses }: QuotaCount): void {
    const { inUse, local } = this.#options
    for (let i = 0; i < uses.length; i++) {
      const [limit, use] = [limits[i], uses[i]]
      if (limit === undefined || use === undefined || !isDaily(limit)) continue
      const { key } = limit.limit
      const [used, { resetAt }] = [limit.max - use.left, use]
      inUse.note({ tenant, key, used, limit: limit.max, resetAt })
      if (local !== undefined) this.#known.set(knownKey(tenant, limit), { used, resetAt })
    }
  }
}

function knownKey(tenant: string, { key }: QuotaLimit): string {
  return `${tenant}\0${key}`
}
