// Counts calls against daily and rate limits.
import { definePlugin, identity, limits, type QuotaAdapter, resolve, token, tokens } from '@svc/core'
import { bindStore, type StoreResource } from '@svc/core/store'
import { isQuotaAdapter, quotasSchema } from './config.js'
import { metrics } from './metrics.js'
import { QuotasStage } from './stage.js'
import { quotaStore } from './stores.js'

const quotaResource = token<StoreResource<QuotaAdapter>>('quotas/StoreResource')

export const quotasPlugin = definePlugin({
  name: 'quotas',
  version: '0.1.0',
  core: '^1.0.0',
  schema: quotasSchema,
  phase: 'metering',
  presence: 'required',
  metrics,
  uses: [identity, limits],
  owns: [
    {
      token: tokens.QuotaAdapter,
      given: { key: 'adapter', bind: (value) => (isQuotaAdapter(value) ? value : undefined) },
      chosenBy: [['adapter'], ['redisUrl'], ['dir']],
    },
  ],

  check({ adapter }, _facts, isBound) {
    if (adapter !== undefined || isBound(tokens.QuotaAdapter)) return []
    const message = 'is missing; accepted is memory, lmdb, redis or the name of a registered adapter'
    return [{ path: ['quotas', 'adapter'], message }]
  },

  register(config, context) {
    const resource = quotaStore(config, context)
    bindStore(context.container, { resource, own: quotaResource, port: tokens.QuotaAdapter })
  },

  create: (config, { container, tenant }) =>
    new QuotasStage(resolve(container, quotaResource), config.failure_mode, tenant),
})
