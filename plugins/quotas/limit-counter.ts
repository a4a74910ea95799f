// Counts limited calls; `failure_mode` decides about them while the store is down. The last counts of limits per day are kept
// for operators: what the store said when a call was counted.
import { after, attempt, type Clock, isPending, type LimitInUse, type MaybePromise } from '@svc/core'
import { BoundedMap } from '@svc/core/store'
import type { QuotasConfig } from './config.js'
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
    const { store } = this.#options
    try {
      const counted = store.count(tenant, limits)
      if (!isPending(counted)) return this.#counted(tenant, limits, counted)
      return counted.then(
        (call) => this.#counted(tenant, limits, call),
        (error: unknown) => this.#uncounted(tenant, limits, error),
      )
    } catch (error) {
      return this.#uncounted(tenant, limits, error)
    }
  }

  #uncounted(
    tenant: string,
    limits: readonly QuotaLimit[],
    error: unknown,
  ): MaybePromise<Counted | undefined> {
    if (this.#options.failureMode === 'closed') throw error
    return this.#countHere(tenant, limits)
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

  #counted(tenant: string, limits: readonly QuotaLimit[], call: QuotaCount): Counted {
    const { inUse, local, store } = this.#options
    const { uses } = call
    for (let i = 0; i < uses.length; i++) {
      const [limit, use] = [limits[i], uses[i]]
      if (limit === undefined || use === undefined || !isDaily(limit)) continue
      const { key } = limit.limit
      const [used, { resetAt }] = [limit.max - use.left, use]
      inUse.note({ tenant, key, used, limit: limit.max, resetAt })
      if (local !== undefined) this.#known.set(knownKey(tenant, limit), { used, resetAt })
    }
    return { call, store }
  }
}

function knownKey(tenant: string, { key }: QuotaLimit): string {
  return `${tenant}\0${key}`
}

/** Of one of two maps: those counted longest ago are forgotten first, half of them at once. */
const MAX_LIMITS = 2_500

/** Entries are replaced and never moved, as a map that loses and gets an entry with each call makes new tables again and again. */
export class LimitsInUse {
  #recent = new Map<string, LimitInUse>()
  #earlier: ReadonlyMap<string, LimitInUse> = new Map()

  note(found: LimitInUse): void {
    this.#recent.set(`${found.tenant}\0${found.key}`, found)
    if (this.#recent.size < MAX_LIMITS) return
    this.#earlier = this.#recent
    this.#recent = new Map()
  }

  get all(): readonly LimitInUse[] {
    return [...new Map([...this.#earlier, ...this.#recent]).values()]
  }
}
