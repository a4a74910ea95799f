// A subpath of its own, so that the client is loaded only on use.

export { RedisConnection, type RedisConnectionOptions, script } from './connection.js'
// `bench/` runs it without the store.
export { takeCounters } from './counter-scripts.js'
export { type RedisKeyValueOptions, RedisKeyValueStore } from './key-value.js'
