// Where a section may keep keys, values and counters: in memory, on disk, or in Redis.
import type { Counters } from '../plugin/counters.js'
import type { KeyValueStore } from '../plugin/key-value-store.js'
import { MemoryKeyValueStore } from './key-value/memory.js'
import type { RedisKeyValueOptions } from './redis/key-value.js'
import type { StoreKind } from './resource.js'

/** `layer` is what the section keeps in the store; `name` is that of the store in errors. */
export function keyValueKinds<T>(
  name: string,
  layer: (store: KeyValueStore & Counters) => T,
  more: Pick<RedisKeyValueOptions, 'waitReplicas' | 'waitMs' | 'whenEvicted'> = {},
): Readonly<Record<'memory' | 'lmdb' | 'redis', StoreKind<T>>> {
  return {
    memory: async ({ clock }) => layer(new MemoryKeyValueStore({ clock })),
    async lmdb({ dir, clock }) {
      const { LmdbKeyValueStore } = await import('./lmdb/key-value.js')
      return layer(new LmdbKeyValueStore({ dir, name, clock }))
    },
    async redis({ redis, keyPrefix, clock }) {
      const { RedisKeyValueStore } = await import('./redis/key-value.js')
      return layer(new RedisKeyValueStore({ ...redis, ...more, keyPrefix, clock }))
    },
  }
}
