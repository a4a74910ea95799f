// Counts calls against daily and rate limits.
import {
  bind,
  bindDefault,
  declareMetrics,
  definePlugin,
  identity,
  limits,
  type MetricEntry,
  type PluginContext,
  resolve,
  resolveOptional,
  services,
  token,
  tokens,
} from '@svc/core'
import { nearest } from '@svc/core/policy'
import { bindStore, checkForWorkers, type StoreResource } from '@svc/core/store'
import { isQuotaAdapter, type QuotasConfig, quotasSchema } from './config.js'
import { LimitsInUse } from './limit-counter.js'
import { QuotasStage } from './stage.js'
import { StoreAdapter } from './store/adapter.js'
import type { QuotaStore } from './store/quota-store.js'
import { builtInAdapters, quotaAdapters, quotaStore } from './stores.js'

const limitsInUse = token<LimitsInUse>('quotas/LimitsInUse')
const quotaResource = token<StoreResource<QuotaStore>>('quotas/StoreResource')

const metrics: Readonly<Record<string, MetricEntry>> = {
  svc_quota_store_failures_total: { kind: 'counter', help: 'Operations of the quota store that failed.' },
  svc_quota_store_duration_seconds: {
    kind: 'histogram',
    help: 'Time of an operation of the quota store outside this process, in seconds.',
  },
}

export const quotasPlugin = definePlugin({
  name: 'quotas',
  version: '1.0.0',
  core: '^1.0.0',
  schema: quotasSchema,
  phase: 'metering',
  uses: [identity, limits],
  owns: [
    {
      token: tokens.QuotaAdapter,
      fromOption: { key: 'adapter', bind: (value) => (isQuotaAdapter(value) ? value : undefined) },
      selectedBy: [['adapter'], ['redisUrl'], ['dir']],
      bind(config: QuotasConfig, context: PluginContext) {
        const resource = quotaStore(config, context)
        const inUse = new LimitsInUse()
        bind(context.container, limitsInUse, { useValue: inUse })
        bind(context.container, services.limitsInUse, { useValue: () => inUse.all })
        bindStore(context.container, { resource, own: quotaResource })
        const allowsCalls = config.failure_mode !== 'closed'
        bind(context.container, services.allowsCallsWithoutStore, { useValue: allowsCalls })
        bindDefault(context.container, tokens.QuotaAdapter, {
          useCurrent: () => new StoreAdapter(resource.running),
        })
      },
    },
  ],

  check({ adapter }, bindings) {
    const path = ['quotas', 'adapter']
    if (bindings.isRegistered(tokens.QuotaAdapter, true) || typeof adapter === 'object') return []
    if (adapter === undefined) {
      const message = 'is missing; accepted is memory, lmdb, redis or the name of a registered adapter'
      return [{ path, message }]
    }
    const known = [...builtInAdapters, ...(resolveOptional(bindings, quotaAdapters)?.keys() ?? [])]
    if (known.includes(adapter)) return checkForWorkers(adapter, path, bindings)
    const meant = nearest(adapter, known)
    const hint = meant === undefined ? '' : `did you mean "${meant}"? `
    return [
      { path, message: `no adapter named "${adapter}" is registered; ${hint}known: ${known.join(', ')}` },
    ]
  },

  create(config, { container, tenant }) {
    declareMetrics(container, metrics)
    const store = resolve(container, quotaResource)
    return new QuotasStage(store, config.failure_mode, tenant, resolve(container, limitsInUse))
  },
})
