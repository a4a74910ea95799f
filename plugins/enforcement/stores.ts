// Chooses the store of escalations: the bound `EscalationStore`, else the one that the policy names.
import { type EscalationStore, type PluginContext, resolveOptional, tokens } from '@svc/core'
import { StoreResource } from '@svc/core/store'
import type { EscalationsConfig } from './config.js'
import { MemoryEscalationStore } from './store/memory/store.js'

export function escalationStore(
  config: EscalationsConfig,
  context: PluginContext,
): StoreResource<EscalationStore> {
  const bound = resolveOptional(context.container, tokens.EscalationStore)
  return new StoreResource<EscalationStore>(
    {
      name: 'escalation store',
      section: 'escalations',
      kind: config.adapter,
      kinds: {
        memory: async ({ clock }) => new MemoryEscalationStore({ clock }),
        async lmdb({ dir, clock }) {
          const { LmdbEscalationStore } = await import('./store/lmdb/store.js')
          return new LmdbEscalationStore(dir, clock)
        },
        async redis({ redis, clock }) {
          const { RedisEscalationStore } = await import('./store/redis/store.js')
          return new RedisEscalationStore({ ...redis, keyPrefix: config.redis?.keyPrefix, clock })
        },
      },
      settings: config,
      instance: bound && { name: 'the bound EscalationStore', store: bound },
      operations: {
        open: {},
        get: {},
        input: {},
        removeInput: {},
        latest: {},
        replace: {},
        remove: {},
        due: {},
        page: {},
      },
      failureMetric: 'svc_escalation_store_failures_total',
      durationMetric: 'svc_escalation_store_duration_seconds',
      whileDown: 'calls that escalate are refused',
    },
    context,
  )
}
