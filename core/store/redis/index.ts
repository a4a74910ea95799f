// A separate subpath, so that only its users load the Redis client.
export { RedisConnection, type RedisConnectionOptions } from './connection.js'
export { type Script, script } from './script.js'
