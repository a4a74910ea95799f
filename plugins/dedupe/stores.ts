// Chooses the store of keys: the bound `DedupeStore`, else Redis if the policy has its URL, else the disk.
import { type PluginContext, resolveOptional, tokens } from '@svc/core'
import { ClaimStore, type DedupeClaim, keyValueKinds, StoreResource } from '@svc/core/store'
import type { DedupeConfig } from './config.js'

export function dedupeStore(config: DedupeConfig, context: PluginContext): StoreResource<ClaimStore> {
  const { redisUrl, timeoutMs } = config
  const bound = resolveOptional(context.container, tokens.DedupeStore)
  return new StoreResource<ClaimStore>(
    {
      name: 'dedupe store',
      section: 'dedupe',
      kind: redisUrl === undefined ? 'lmdb' : 'redis',
      kinds: keyValueKinds('the dedupe store', (store) => new ClaimStore(store), {
        waitReplicas: config.redis?.waitReplicas,
        waitMs: Math.ceil(0.8 * timeoutMs),
        whenEvicted: 'a call whose key it has evicted can run again',
      }),
      settings: config,
      instance: bound && { name: 'the bound DedupeStore', store: new ClaimStore(bound) },
      operations: {
        claim: { undo: (store, { state }, claim) => freed(state === 'claimed', store, claim) },
        markSent: { undo: (store, isOwner, claim) => freed(isOwner, store, claim) },
        renew: {},
        release: {},
        complete: {},
        markUnknown: {},
        watch: {},
      },
      failureMetric: 'svc_dedupe_store_failures_total',
      durationMetric: 'svc_dedupe_store_duration_seconds',
      whileDown: 'calls with an idempotency key are refused',
    },
    context,
  )
}

/** The call whose response came too late was refused. */
function freed(isOwner: boolean, store: ClaimStore, claim: DedupeClaim): Promise<void> | undefined {
  return isOwner ? store.release(claim) : undefined
}
