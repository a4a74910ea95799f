// Chooses the store of counts: the adapter bound in code, else the one that the policy names.
import {
  type LimitUse,
  type PluginContext,
  type QuotaAdapter,
  type ResetAt,
  resolveOptional,
  token,
  tokens,
} from '@svc/core'
import { type StoreKind, StoreResource } from '@svc/core/store'
import type { QuotasConfig } from './config.js'
import { refundDays } from './store/count-one-by-one.js'
import { MemoryCounts } from './store/memory/counts.js'
import { END_OF_TIME, instantOf, type QuotaStore } from './store/token-bucket.js'

/** Opens an adapter of the user. The gateway keeps it across reloads and closes it at the end. */
export type QuotaAdapterFactory = (context: PluginContext) => QuotaAdapter

export const builtInAdapters: readonly string[] = ['memory', 'lmdb', 'redis']

/** Adapters that `quotas.adapter` may name besides the built-in ones. */
export const quotaAdapters = token<ReadonlyMap<string, QuotaAdapterFactory>>('quotas/adapters')

const whileDown = {
  closed: 'limited calls are refused',
  open: 'limited calls are let through uncounted',
  local: 'limited calls are counted in this process alone',
} as const

/** @throws {Error} for a name that is not registered */
export function quotaStore(config: QuotasConfig, context: PluginContext): StoreResource<QuotaStore> {
  const { adapter, failure_mode } = config
  return new StoreResource<QuotaStore>(
    {
      name: 'quota store',
      section: 'quotas',
      kind: typeof adapter === 'string' ? adapter : 'memory',
      kinds: { ...builtIn(config), ...registered(context) },
      settings: config,
      instance: instanceOf(adapter, context),
      isOptional: failure_mode !== 'closed',
      operations: {
        takeToken: { check: checkBucket },
        incrDaily: {
          check: checkDay,
          undo({ refundDaily }, { count, resetAt }, tenant, tool, limit) {
            // In the other modes the call was allowed, so its count stays.
            if (failure_mode !== 'closed' || count > limit) return undefined
            return refundDaily?.(tenant, tool, instantOf(resetAt) - 1)
          },
        },
        countCall: {
          check: checkUses,
          undo(store, uses, tenant, limits) {
            return failure_mode === 'closed' ? refundDays(store, tenant, limits, uses) : undefined
          },
        },
        refundDaily: {},
      },
      failureMetric: 'svc_quota_store_failures_total',
      durationMetric: 'svc_quota_store_duration_seconds',
      whileDown: whileDown[failure_mode],
    },
    context,
  )
}

function instanceOf(adapter: QuotasConfig['adapter'], { container }: PluginContext) {
  if (typeof adapter === 'object') return { name: 'a QuotaAdapter given in code', store: adapter }
  const bound = resolveOptional(container, tokens.QuotaAdapter)
  return bound && { name: 'the bound QuotaAdapter', store: bound }
}

function builtIn(config: QuotasConfig): Record<string, StoreKind<QuotaStore>> {
  return {
    memory: async ({ clock }) =>
      new MemoryCounts({ now: () => clock.now(), monotonic: () => clock.monotonic() }),
    async lmdb({ dir, clock }) {
      const { LmdbQuotaAdapter } = await import('./store/lmdb/store.js')
      return new LmdbQuotaAdapter({ dir, now: () => clock.now(), monotonic: () => clock.monotonic() })
    },
    async redis({ redis }) {
      const { LeasedQuotaAdapter, RedisQuotaAdapter } = await import('./store/redis/index.js')
      const store = new RedisQuotaAdapter({ ...redis, keyPrefix: config.redis?.keyPrefix })
      const lease = config.redis?.lease
      return lease === undefined ? store : new LeasedQuotaAdapter(store, lease)
    },
  }
}

function registered(context: PluginContext): Record<string, StoreKind<QuotaStore>> {
  const factories = [...(resolveOptional(context.container, quotaAdapters) ?? [])]
  return Object.fromEntries(factories.map(([name, make]) => [name, async () => make(context)]))
}

/** @throws {TypeError} when it is not what `QuotaAdapter.takeToken` promises */
function checkBucket(response: { tokens: number; resetAt: ResetAt }): void {
  if (!Number.isFinite(response?.tokens)) {
    throw new TypeError(`takeToken returned no number of tokens: ${String(response?.tokens)}`)
  }
  checkInstant('takeToken', response.resetAt)
}

/** @throws {TypeError} when it is not what `QuotaAdapter.incrDaily` promises */
function checkDay(response: { count: number; resetAt: ResetAt }): void {
  if (!(Number.isSafeInteger(response?.count) && response.count > 0)) {
    throw new TypeError(`incrDaily returned no count of calls: ${String(response?.count)}`)
  }
  checkInstant('incrDaily', response.resetAt)
}

/** @throws {TypeError} when it is not what `QuotaAdapter.countCall` promises */
function checkUses(uses: readonly LimitUse[]): void {
  if (!Array.isArray(uses) || uses.length === 0) throw new TypeError('countCall returned no uses of limits')
  for (const use of uses as readonly LimitUse[]) {
    if (!Number.isFinite(use?.value))
      throw new TypeError(`countCall returned no number: ${String(use?.value)}`)
    checkInstant('countCall', use.resetAt)
  }
}

function checkInstant(method: string, resetAt: ResetAt): void {
  const instant = instantOf(resetAt)
  if (!(Number.isFinite(instant) && Math.abs(instant) <= END_OF_TIME)) {
    throw new TypeError(`${method} returned no instant of reset: ${String(resetAt)}`)
  }
}
