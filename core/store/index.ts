// The shared parts of all stores; `/lmdb` and `/redis` have the clients.

export { bindSharedStore, bindStore, checkForWorkers } from './bind.js'
export { BoundedMap } from './bounded-map.js'
export { checkDirectory } from './check-directory.js'
export { makeDirectories } from './directories.js'
export { elapsed, type HostInstant, isSameBoot, thisBoot } from './host-time.js'
export { KeptReads } from './kept-reads.js'
export { MemoryBoard } from './memory-board.js'
export { MemoryMap } from './memory-map.js'
export { checkRedisSettings, checkStoreChoice, redisSettings, redisUrl } from './redis/settings.js'
export { type StoreEnvironment, type StoreKind, type StoreOptions, StoreResource } from './resource.js'
export { Tally } from './tally.js'
