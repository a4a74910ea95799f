// Counts calls against daily and rate limits.
import { type Clock, definePlugin, identity, limits, resolveOptional, tokens } from '@svc/core'
import { chooseAdapter } from './adapters.js'
import { type QuotasConfig, quotasSchema } from './config.js'
import { QuotasStage } from './stage.js'

const systemClock: Clock = { now: () => Date.now(), monotonic: () => performance.now() }

export const quotasPlugin = definePlugin<QuotasConfig>({
  name: 'quotas',
  version: '0.1.0',
  core: '^1.0.0',
  schema: quotasSchema,
  presence: 'required',
  uses: [identity, limits],
  create(config, context) {
    const clock = resolveOptional(context.container, tokens.Clock) ?? systemClock
    return new QuotasStage(chooseAdapter(config.adapter, context, clock), context.tenant, clock)
  },
})
