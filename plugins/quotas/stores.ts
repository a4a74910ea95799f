// Chooses the store of counts: the adapter bound in code, else the one that the policy names.
import { hostClock, type PluginContext, type QuotaAdapter, resolveOptional, token, tokens } from '@svc/core'
import { StoreResource } from '@svc/core/store'
import type { QuotasConfig } from './config.js'
import { AdapterQuotas } from './store/adapter.js'
import { LeasedCounters } from './store/leases.js'
import { QuotaCounters, type QuotaStore } from './store/quota-store.js'

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

export function quotaStore(config: QuotasConfig, context: PluginContext): StoreResource<QuotaStore> {
  const { adapter, failure_mode, redis } = config
  const clock = resolveOptional(context.container, tokens.Clock) ?? hostClock
  return new StoreResource<QuotaStore>(
    {
      name: 'quota store',
      section: 'quotas',
      kind: adapter === 'lmdb' || adapter === 'redis' ? adapter : 'memory',
      layer(store) {
        if (redis?.lease === undefined) return new QuotaCounters(store, store)
        const monotonic = () => clock.monotonic()
        return new QuotaCounters(new LeasedCounters(store, { ...redis.lease, monotonic }), store)
      },
      settings: config,
      instance: instanceOf(adapter, context),
      isOptional: failure_mode !== 'closed',
      operations: ['count', 'refund', 'lostAt'],
      undo: {
        count(store, counted, tenant, limits) {
          // In the other modes the call was allowed, so its count stays.
          if (failure_mode !== 'closed' || !counted.isCounted) return undefined
          return store.refund(tenant, limits, counted)
        },
      },
      whileDown: whileDown[failure_mode],
    },
    context,
  )
}

function instanceOf(adapter: QuotasConfig['adapter'], context: PluginContext) {
  const { container } = context
  if (typeof adapter === 'object')
    return { name: 'a QuotaAdapter given in code', store: new AdapterQuotas(adapter) }
  const bound = resolveOptional(container, tokens.QuotaAdapter)
  if (bound !== undefined) return { name: 'the bound QuotaAdapter', store: new AdapterQuotas(bound) }
  const make = resolveOptional(container, quotaAdapters)?.get(adapter ?? '')
  return make && { name: String(adapter), open: () => new AdapterQuotas(make(context)) }
}
