// One run for each idempotency key.
import {
  type Clock,
  definePlugin,
  identity,
  type PluginContext,
  resolveOptional,
  type Stage,
  tokens,
} from '@svc/core'
import { type DedupeConfig, dedupeSchema } from './config.js'
import { metrics } from './metrics.js'
import { DedupeStage } from './stage.js'
import { claimsSource } from './stores.js'
import { SwitchedOff } from './switched-off.js'

const systemClock: Clock = { now: () => Date.now(), monotonic: () => performance.now() }

/** Seconds: 30 days. What is kept for longer is no retry's any more, and may hold what ought to be forgotten. */
const LONGEST = 2_592_000

export const dedupePlugin = definePlugin({
  name: 'dedupe',
  version: '0.1.0',
  core: '^1.0.0',
  schema: dedupeSchema,
  phase: 'idempotency',
  metrics,
  uses: [identity],
  create: (config, context) => (config.enabled ? stageOf(config, context) : new SwitchedOff()),
})

function stageOf(config: DedupeConfig, context: PluginContext): Stage {
  const clock = resolveOptional(context.container, tokens.Clock) ?? systemClock
  const ttlSec = Math.min(LONGEST, Math.max(1, config.ttlSec))
  if (ttlSec !== config.ttlSec) context.warn(`dedupe.ttlSec: ${config.ttlSec} is taken as ${ttlSec}`)
  return new DedupeStage({
    source: claimsSource(config, context, clock),
    rule: {
      namespace: config.namespace,
      tenant: context.tenant,
      leaseMs: config.leaseSec * 1000,
      ttlMs: ttlSec * 1000,
    },
    policy: config.duplicatePolicy,
    waitMs: config.waitSec * 1000,
    maxAnswerBytes: config.maxAnswerKb * 1024,
    meter: resolveOptional(context.container, tokens.Meter),
  })
}
