// Counts a call with one operation for each limit, for stores without `countCall`.
import { after, type CountedLimit, isPending, type LimitUse, type MaybePromise } from '@svc/core'
import { instantOf, type QuotaStore } from './token-bucket.js'

type Store = Pick<QuotaStore, 'takeToken' | 'incrDaily' | 'refundDaily'>

/** Counts like `QuotaAdapter.countCall`. If an operation fails, what was counted before it is given back. */
export function countOneByOne(
  store: Store,
  tenant: string,
  limits: readonly CountedLimit[],
  now?: number,
): MaybePromise<readonly LimitUse[]> {
  return countFrom({ store, tenant, limits, now, uses: [] })
}

interface Counting {
  readonly store: Store
  readonly tenant: string
  readonly limits: readonly CountedLimit[]
  readonly now: number | undefined
  readonly uses: LimitUse[]
}

function countFrom(counting: Counting): MaybePromise<readonly LimitUse[]> {
  const { store, tenant, limits, now, uses } = counting
  try {
    for (let i = uses.length; i < limits.length; i++) {
      const limit = limits[i] as CountedLimit
      const use = countOne(store, tenant, limit, now)
      if (isPending(use)) {
        return use.then(
          (counted) => {
            uses.push(counted)
            return isRefused(limit, counted) ? uses : countFrom(counting)
          },
          (error: unknown) => refunded(counting, error),
        )
      }
      uses.push(use)
      if (isRefused(limit, use)) break
    }
    return uses
  } catch (error) {
    return refunded(counting, error)
  }
}

async function refunded({ store, tenant, limits, uses }: Counting, error: unknown): Promise<never> {
  await refundDays(store, tenant, limits, uses)
  throw error
}

function countOne(
  store: Store,
  tenant: string,
  limit: CountedLimit,
  now: number | undefined,
): MaybePromise<LimitUse> {
  const { unit, tool } = limit
  if (unit === 'day')
    return after(store.incrDaily(tenant, tool, limit.callsPerDay, now), ({ count, resetAt }) => ({
      value: count,
      resetAt,
    }))
  const { ratePerSec, burst } = limit
  return after(store.takeToken(tenant, tool, ratePerSec, burst, now), ({ tokens, resetAt }) => ({
    value: tokens,
    resetAt,
  }))
}

export function isRefused(limit: CountedLimit, { value }: LimitUse): boolean {
  return limit.unit === 'rate' ? value < 0 : value > limit.callsPerDay
}

/** @throws {Error} if there is none */
export function only<U>([use]: readonly U[]): U {
  if (use === undefined) throw new Error('the store said nothing of the limit')
  return use
}

/** Gives back what was counted for days. A count that cannot be given back stays: too few calls are allowed, not too many. */
export async function refundDays(
  store: Store,
  tenant: string,
  limits: readonly CountedLimit[],
  uses: readonly LimitUse[],
): Promise<void> {
  const refunds = uses.map(async (use, i) => {
    const limit = limits[i]
    if (limit?.unit !== 'day' || isRefused(limit, use)) return
    await store.refundDaily?.(tenant, limit.tool, instantOf(use.resetAt) - 1)
  })
  await Promise.allSettled(refunds)
}
