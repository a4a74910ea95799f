// Lets one call run for each idempotency key.
import {
  declareMetrics,
  definePlugin,
  disabledStage,
  idempotency,
  identity,
  type MetricEntry,
  owned,
  type PluginContext,
  policyTokens,
  resolve,
  resolveOptional,
  type Stage,
  sideEffects,
  token,
  tokens,
} from '@svc/core'
import { bindStore, type ClaimStore, claimStore, type StoreResource } from '@svc/core/store'
import { type DedupeConfig, dedupeSchema } from './config.js'
import { DedupeStage } from './stage.js'
import { dedupeStore } from './stores.js'

/** 30 days in seconds. A later repeat is not a retry, and stored responses may hold data that must be deleted. */
const MAX_TTL_SEC = 2_592_000

const dedupeResource = token<StoreResource<ClaimStore>>('dedupe/StoreResource')

const metrics: Readonly<Record<string, MetricEntry>> = {
  svc_dedupe_replays_total: {
    kind: 'counter',
    help: 'Calls that got the stored response of an earlier one.',
  },
  svc_dedupe_refusals_total: {
    kind: 'counter',
    help: 'Calls refused for their key: duplicates, unknown outcomes, keys of other requests.',
  },
  svc_dedupe_store_failures_total: {
    kind: 'counter',
    help: 'Operations of the dedupe store that failed.',
  },
  svc_dedupe_store_duration_seconds: {
    kind: 'histogram',
    help: 'Time of an operation of the dedupe store outside this process, in seconds.',
  },
}

export const dedupePlugin = definePlugin({
  name: 'dedupe',
  version: '1.0.0',
  core: '^1.0.0',
  schema: dedupeSchema,
  phase: 'idempotency',
  uses: [identity, sideEffects],
  provides: [idempotency],
  owns: [
    {
      token: tokens.DedupeStore,
      selectedBy: [['redisUrl'], ['dir']],
      bind(config: DedupeConfig, context: PluginContext) {
        if (!config.enabled) return
        const resource = dedupeStore(config, context)
        bindStore(context.container, { resource, own: dedupeResource, port: claimStore })
      },
    },
    owned(policyTokens.claimsKeys, ({ enabled }: DedupeConfig) => enabled),
  ],

  create: (config, context) =>
    config.enabled
      ? stageOf(config, context)
      : disabledStage('idempotency keys are passed on and not checked'),
})

function stageOf(config: DedupeConfig, context: PluginContext): Stage {
  declareMetrics(context.container, metrics)
  const ttlSec = Math.min(MAX_TTL_SEC, Math.max(1, config.ttlSec))
  if (ttlSec !== config.ttlSec) context.warn(`dedupe.ttlSec: ${config.ttlSec} is taken as ${ttlSec}`)
  const rule = {
    namespace: config.namespace,
    tenant: context.tenant,
    leaseMs: config.leaseSec * 1000,
    ttlMs: ttlSec * 1000,
    maxKeys: config.maxKeysPerTenant,
  }
  const meter = resolveOptional(context.container, tokens.Meter)
  return new DedupeStage(config, resolve(context.container, dedupeResource), rule, meter)
}
