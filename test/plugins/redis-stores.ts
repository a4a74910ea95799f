// The three stores in Redis behind one interface, for tests of what they have in common.
import { hostClock } from '@svc/core'
import { type RedisConnectionOptions, RedisKeyValueStore } from '@svc/core/redis'
import { ClaimStore } from '@svc/core/store'
import { EscalationStore } from '@svc/plugin-enforcement'
import { claimOf, spaceNameOf } from './dedupe/store/suite.js'
import { entry } from './enforcement/store/suite.js'
import { adapterOn, redisCounters } from './quotas/store/adapters.js'

export interface RedisStore {
  connect(signal: AbortSignal): Promise<void>
  ready(): string | undefined
  /** Writes something under the key; rejects if the store does. */
  write(): Promise<void>
  /** Whether something is stored under the key. */
  has(): Promise<boolean>
  close(): Promise<void>
}

/** By name: a store that uses one key, and the hash tag of that key. */
export const redisStores: Readonly<
  Record<
    string,
    { tagOf(key: string): string; open(key: string, options: RedisConnectionOptions): RedisStore }
  >
> = {
  quotas: {
    tagOf: (key) => `t/${key}`,
    open(key, options) {
      const store = adapterOn(redisCounters(options))
      const count = async () => (await store.incrDaily(key, 'a', 1)).count
      return withLifecycle(store, {
        write: async () => void (await count()),
        has: async () => (await count()) > 1,
      })
    },
  },
  dedupe: {
    tagOf: spaceNameOf,
    open(key, options) {
      const values = new RedisKeyValueStore({ ...options, keyPrefix: 'svc:dedupe:', clock: hostClock })
      const store = new ClaimStore(values)
      const claim = () => claimOf({ key, leaseMs: 60_000 })
      return withLifecycle(store, {
        write: async () => void (await store.claim(claim())),
        has: async () => (await store.claim(claim())).state === 'in_flight',
      })
    },
  },
  escalations: {
    tagOf: (key) => key,
    open(key, options) {
      const values = new RedisKeyValueStore({ ...options, keyPrefix: `{${key}}:`, clock: hostClock })
      const store = new EscalationStore(values)
      const conditions = { replaces: undefined, maxPending: 20, maxInputBytes: 9, now: entry('').createdAt }
      return withLifecycle(store, {
        write: async () => void (await store.open(entry(key), conditions)),
        has: async () => (await store.get(key)) !== undefined,
      })
    },
  },
}

function withLifecycle(
  store: Pick<RedisStore, 'connect' | 'ready' | 'close'>,
  own: Pick<RedisStore, 'write' | 'has'>,
): RedisStore {
  return {
    connect: (signal) => store.connect(signal),
    ready: () => store.ready(),
    close: () => store.close(),
    ...own,
  }
}
