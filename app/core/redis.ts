// `svc-sdk/core/redis`: the client of Redis.
export { RedisConnection, script } from '@svc/core/redis'
