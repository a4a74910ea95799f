// Chooses the store of keys: the bound `DedupeStore`, else Redis if the policy has its URL, else the disk.
import { type PluginContext, resolveOptional, tokens } from '@svc/core'
import { ClaimStore, type DedupeClaim, StoreResource } from '@svc/core/store'
import type { DedupeConfig } from './config.js'

export function dedupeStore(config: DedupeConfig, context: PluginContext): StoreResource<ClaimStore> {
  const bound = resolveOptional(context.container, tokens.DedupeStore)
  return new StoreResource<ClaimStore>(
    {
      name: 'dedupe store',
      section: 'dedupe',
      kind: config.redisUrl === undefined ? 'lmdb' : 'redis',
      layer: (store) => new ClaimStore(store),
      settings: config,
      instance: bound && { name: 'the bound DedupeStore', store: new ClaimStore(bound) },
      operations: ['claim', 'markSent', 'renew', 'release', 'complete', 'markUnknown', 'noticeLoss'],
      undo: {
        claim: (store, { state }, claim) => freed(state === 'claimed', store, claim),
        markSent: (store, isOwner, claim) => freed(isOwner, store, claim),
      },
      whileDown: 'calls with an idempotency key are refused',
      whenEvicted: 'a call whose key it has evicted can run again',
    },
    context,
  )
}

/** The call whose response came too late was refused. */
function freed(isOwner: boolean, store: ClaimStore, claim: DedupeClaim): Promise<void> | undefined {
  return isOwner ? store.release(claim) : undefined
}
