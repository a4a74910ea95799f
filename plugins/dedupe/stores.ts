// Chooses the store of keys: the bound `DedupeStore`, else Redis if the policy has its URL, else the disk.
import { type DedupeClaim, type DedupeStore, type PluginContext, resolveOptional, tokens } from '@svc/core'
import { StoreResource } from '@svc/core/store'
import type { DedupeConfig } from './config.js'
import { MemoryDedupeStore } from './store/memory/store.js'

export function dedupeStore(config: DedupeConfig, context: PluginContext): StoreResource<DedupeStore> {
  const { redisUrl, namespace, timeoutMs } = config
  const bound = resolveOptional(context.container, tokens.DedupeStore)
  return new StoreResource<DedupeStore>(
    {
      name: 'dedupe store',
      section: 'dedupe',
      kind: redisUrl === undefined ? 'lmdb' : 'redis',
      kinds: {
        memory: async ({ clock }) => new MemoryDedupeStore({ now: () => clock.now() }),
        async lmdb({ dir, clock }) {
          const { LmdbDedupeStore } = await import('./store/lmdb/store.js')
          return new LmdbDedupeStore({ dir, now: () => clock.now(), monotonic: () => clock.monotonic() })
        },
        async redis({ redis }) {
          const { RedisDedupeStore } = await import('./store/redis/store.js')
          const waitReplicas = config.redis?.waitReplicas
          return new RedisDedupeStore({
            ...redis,
            namespace,
            waitReplicas,
            waitMs: Math.ceil(0.8 * timeoutMs),
          })
        },
      },
      settings: config,
      instance: bound && { name: 'the bound DedupeStore', store: bound },
      operations: {
        claim: { undo: (store, { state }, claim) => freed(state === 'claimed', store, claim) },
        markSent: { undo: (store, isOwner, claim) => freed(isOwner, store, claim) },
        renew: {},
        release: {},
        complete: {},
        markUnknown: {},
      },
      failureMetric: 'svc_dedupe_store_failures_total',
      durationMetric: 'svc_dedupe_store_duration_seconds',
      whileDown: 'calls with an idempotency key are refused',
    },
    context,
  )
}

/** The call whose response came too late was refused. */
function freed(isOwner: boolean, store: DedupeStore, claim: DedupeClaim): Promise<void> | undefined {
  return isOwner ? store.release(claim) : undefined
}
