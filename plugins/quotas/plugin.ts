// Counts calls against daily and rate limits.
import {
  type Clock,
  definePlugin,
  identity,
  type Lease,
  limits,
  type PluginContext,
  type QuotaAdapter,
  resolveOptional,
  tokens,
} from '@svc/core'
import { type AdapterSource, chooseAdapter } from './adapters.js'
import { type QuotasConfig, quotasSchema } from './config.js'
import { GuardedStore } from './guarded-store.js'
import { MemoryQuotaAdapter } from './memory/adapter.js'
import { metrics } from './metrics.js'
import { QuotasStage, type StoreSource } from './stage.js'

const systemClock: Clock = { now: () => Date.now(), monotonic: () => performance.now() }

export const quotasPlugin = definePlugin({
  name: 'quotas',
  version: '0.1.0',
  core: '^1.0.0',
  schema: quotasSchema,
  phase: 'metering',
  presence: 'required',
  metrics,
  uses: [identity, limits],
  create(config, context) {
    const clock = resolveOptional(context.container, tokens.Clock) ?? systemClock
    const source = guarded(chooseAdapter(config, context, clock), config, context, clock)
    return new QuotasStage(source, context.tenant, clock)
  },
})

/** The adapter behind its deadline, with the process's own counts beside it where the failure mode wants them. */
function guarded(
  source: AdapterSource,
  config: QuotasConfig,
  { container, resources }: PluginContext,
  clock: Clock,
): StoreSource {
  return {
    name: source.name,
    async open(signal) {
      const adapter = await source.open(signal)
      const local = config.failure_mode === 'local' ? leaseLocal(source.name, resources, clock) : undefined
      const value = new GuardedStore(adapter.value, {
        timeoutMs: config.timeoutMs,
        failureMode: config.failure_mode,
        local: local?.value,
        clock,
        logger: resolveOptional(container, tokens.Logger),
        meter: resolveOptional(container, tokens.Meter),
      })
      return { value, release: () => releaseAll(adapter, local) }
    },
  }
}

function leaseLocal(name: string, resources: PluginContext['resources'], clock: Clock) {
  return resources.acquire(`quotas beside ${name}`, () => ({
    value: new MemoryQuotaAdapter({ now: () => clock.now() }),
    close: () => undefined,
  }))
}

async function releaseAll(
  adapter: Lease<QuotaAdapter>,
  local: Lease<MemoryQuotaAdapter> | undefined,
): Promise<void> {
  await local?.release()
  await adapter.release()
}
