// Counts calls against daily and rate limits.
import { definePlugin, identity, limits } from '@svc/core'
import { quotasSchema } from './config.js'
import { metrics } from './metrics.js'
import { QuotasStage } from './stage.js'
import { quotaStore } from './stores.js'

export const quotasPlugin = definePlugin({
  name: 'quotas',
  version: '0.1.0',
  core: '^1.0.0',
  schema: quotasSchema,
  phase: 'metering',
  presence: 'required',
  metrics,
  uses: [identity, limits],
  create: (config, context) =>
    new QuotasStage(quotaStore(config, context), config.failure_mode, context.tenant),
})
