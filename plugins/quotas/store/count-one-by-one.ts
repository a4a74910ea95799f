// Counts a call with one operation for each limit, for stores without `countCall`.
import { after, attempt, type CountedLimit, firstResult, type LimitUse, type MaybePromise } from '@svc/core'
import { instantOf, type QuotaStore } from './token-bucket.js'

type Store = Pick<QuotaStore, 'takeToken' | 'incrDaily' | 'refundDaily'>

/** Counts like `QuotaAdapter.countCall`. If an operation fails, what was counted before it is given back. */
export function countOneByOne(
  store: Store,
  tenant: string,
  limits: readonly CountedLimit[],
  now?: number,
): MaybePromise<readonly LimitUse[]> {
  const uses: LimitUse[] = []
  const counting = attempt(
    () =>
      firstResult(limits, (limit) =>
        after(countOne(store, tenant, limit, now), (use) => {
          uses.push(use)
          return isRefused(limit, use) ? uses : undefined
        }),
      ),
    async (error) => {
      await refundDays(store, tenant, limits, uses)
      throw error
    },
  )
  return after(counting, () => uses)
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
