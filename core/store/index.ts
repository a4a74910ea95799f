// The shared parts of all stores; `/lmdb` and `/redis` have the clients.

export { BoundedMap } from '../cache/bounded-map.js'
export { CachedReads } from '../cache/cached-reads.js'
export { checkDirectory } from '../disk/check-directory.js'
export { makeDirectories } from '../disk/directories.js'
export {
  ClaimStore,
  claimStore,
  type DedupeClaim,
  type DedupeClaimResult,
  type Loss,
  MAX_KEYS,
} from './claims.js'
export { elapsed, type HostInstant, thisBoot } from './key-value/host-time.js'
export { MemoryKeyValueStore } from './key-value/memory.js'
export { readLoss, retried, StoreLayer, storableName, trackedSpaces } from './layer.js'
export { type MapBounds, mapIn, memoryMap, type SharedMap, secretIn } from './maps.js'
export { checkRedisSettings, checkStoreChoice, redisSettings, redisUrl } from './redis/settings.js'
export { bindStore, checkForWorkers, type StoreOptions, StoreResource } from './resource.js'
