// The counters of each store as quota adapters, for tests.
import { type Clock, type Counters, hostClock } from '@svc/core'
import { LmdbKeyValueStore } from '@svc/core/lmdb'
import { type RedisConnectionOptions, RedisKeyValueStore } from '@svc/core/redis'
import { StoreAdapter } from '@svc/plugin-quotas/internal/store/adapter'
import { QuotaCounters } from '@svc/plugin-quotas/internal/store/quota-store'

export function adapterOn(counters: Counters): StoreAdapter {
  return new StoreAdapter(new QuotaCounters(counters))
}

export function lmdbAdapter(dir: string, clock: Pick<Clock, 'now' | 'monotonic'> = hostClock): StoreAdapter {
  return adapterOn(new LmdbKeyValueStore({ dir, name: 'the quota store', clock }))
}

export function redisCounters(options: RedisConnectionOptions): RedisKeyValueStore {
  return new RedisKeyValueStore({ ...options, keyPrefix: 'svc:quotas:', clock: hostClock })
}
