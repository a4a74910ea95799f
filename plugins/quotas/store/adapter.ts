// The interface for programs: a `QuotaAdapter` of theirs as the store of the stage, and the store of the stage as a
// `QuotaAdapter`.
import { type Clock, hostClock, type QuotaAdapter, type ResetAt } from '@svc/core'
import { MemoryKeyValueStore, StoreLayer } from '@svc/core/store'
import {
  dayLimit,
  isDaily,
  type QuotaCount,
  QuotaCounters,
  type QuotaLimit,
  type QuotaStore,
  type QuotaUse,
  rateLimit,
} from './quota-store.js'

/** Asks the adapter for each limit. What was counted before a limit that refuses or fails is given back, if it has `refundDaily`. */
export class AdapterQuotas extends StoreLayer<QuotaAdapter> implements QuotaStore {
  async count(tenant: string, limits: readonly QuotaLimit[], now?: number): Promise<QuotaCount> {
    const isRefundable = this.store.refundDaily !== undefined
    const uses: QuotaUse[] = []
    try {
      for (const limit of limits) {
        const { isRefused, ...use } = await this.#countOne(tenant, limit, now)
        if (isRefused) {
          await this.refund(tenant, limits.slice(0, uses.length), { uses })
          const back = uses.map(({ left, resetAt }, i) => {
            const isBack = isRefundable && isDaily(limits[i] ?? limit)
            return { left: isBack ? left + 1 : left, resetAt }
          })
          return { isCounted: false, uses: [...back, use], at: 0, isRefundable }
        }
        uses.push(use)
      }
    } catch (error) {
      // A count that cannot be given back stays: too few calls are allowed, not too many.
      await this.refund(tenant, limits.slice(0, uses.length), { uses }).catch(() => undefined)
      throw error
    }
    return { isCounted: true, uses, at: 0, isRefundable }
  }

  async refund(
    tenant: string,
    limits: readonly QuotaLimit[],
    { uses }: Pick<QuotaCount, 'uses'>,
  ): Promise<void> {
    const refunds = limits.map(async (counted, i) => {
      const use = uses[i]
      if (isDaily(counted) && use !== undefined)
        await this.store.refundDaily?.(tenant, counted.limit.key, use.resetAt - 1)
    })
    const errors = (await Promise.allSettled(refunds)).filter((result) => result.status === 'rejected')
    const reasons = errors.map(({ reason }) => reason)
    if (reasons.length > 0) throw new AggregateError(reasons, 'daily counts could not be refunded')
  }

  /** @throws {TypeError} if the response is not what `QuotaAdapter` promises */
  async #countOne(tenant: string, { limit, perSecond, max }: QuotaLimit, now: number | undefined) {
    if (perSecond === undefined) {
      const response = await this.store.incrDaily(tenant, limit.key, max, now)
      const count = response?.count
      if (!(Number.isSafeInteger(count) && count > 0))
        throw new TypeError(`incrDaily returned no count of calls: ${String(count)}`)
      const resetAt = checkedInstant('incrDaily', response.resetAt)
      return { left: Math.max(0, max - count), resetAt, isRefused: count > max }
    }
    const response = await this.store.takeToken(tenant, limit.key, perSecond, limit.burst, now)
    const tokens = response?.tokens
    if (!Number.isFinite(tokens))
      throw new TypeError(`takeToken returned no number of tokens: ${String(tokens)}`)
    const resetAt = checkedInstant('takeToken', response.resetAt)
    return { left: Math.max(0, tokens), resetAt, isRefused: tokens < 0 }
  }
}

/** ISO 8601 with a time zone, without which the instant depends on the machine. */
const ISO_INSTANT = /^[+-]?\d{4,6}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)$/

/** Milliseconds since the epoch. @throws {TypeError} if it is not an instant */
function checkedInstant(method: string, resetAt: ResetAt): number {
  const isText = typeof resetAt === 'string' && ISO_INSTANT.test(resetAt)
  const isKnown = isText || typeof resetAt === 'number' || resetAt instanceof Date
  const instant = isKnown ? new Date(resetAt).getTime() : Number.NaN
  if (Number.isNaN(instant)) throw new TypeError(`${method} returned no instant of reset: ${String(resetAt)}`)
  return typeof resetAt === 'number' ? resetAt : instant
}

/** The store as an adapter. */
export class StoreAdapter extends StoreLayer<QuotaStore> implements QuotaAdapter {
  async incrDaily(tenant: string, tool: string, callsPerDay: number, now?: number) {
    const limit = dayLimit({ key: tool, callsPerDay }, callsPerDay)
    const { isCounted, left, resetAt } = await this.#count(tenant, limit, now)
    const count = Math.min(callsPerDay, Number.MAX_SAFE_INTEGER) - left
    return { count: isCounted ? count : count + 1, resetAt }
  }

  async takeToken(tenant: string, tool: string, ratePerSec: number, burst?: number, now?: number) {
    const limit = rateLimit({ key: tool, ratePerSec, burst }, ratePerSec)
    const { isCounted, left, resetAt } = await this.#count(tenant, limit, now)
    return { tokens: isCounted ? left : left - 1, resetAt }
  }

  async refundDaily(tenant: string, tool: string, now?: number): Promise<void> {
    const at = now ?? this.now?.() ?? hostClock.now()
    const uses = [{ left: 0, resetAt: at + 1 }]
    await this.store.refund(tenant, [dayLimit({ key: tool }, 1)], { at, uses })
  }

  async #count(tenant: string, limit: QuotaLimit, now: number | undefined) {
    const { isCounted, uses } = await this.store.count(tenant, [limit], now)
    const [use] = uses
    if (use === undefined) throw new Error('the store said nothing of the limit')
    return { isCounted, ...use }
  }
}

/** Counts in the memory of this process, for tests and for programs that bind or wrap it. */
export class MemoryQuotaAdapter extends StoreAdapter {
  constructor({ now = hostClock.now, monotonic = now }: Partial<Pick<Clock, 'now' | 'monotonic'>> = {}) {
    super(new QuotaCounters(new MemoryKeyValueStore({ clock: { now, monotonic } })))
  }
}
