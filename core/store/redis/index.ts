// A subpath of its own, so that the client is loaded only on use.

export { RedisBoard } from './board.js'
export { RedisConnection, type RedisConnectionOptions } from './connection.js'
export { type Script, script } from './script.js'
export { RedisSharedStore } from './shared-store.js'
export { RedisTime } from './time.js'
