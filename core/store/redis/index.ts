// A subpath of its own: who needs no Redis does not load its client.
export { RedisConnection, type RedisConnectionOptions } from './connection.js'
export { type Script, script } from './script.js'
