// A subpath of its own, so that the client is loaded only where it is used.
export { RedisConnection, type RedisConnectionOptions } from './connection.js'
export { type Script, script } from './script.js'
export { RedisSharedStore } from './shared-store.js'
