// `svc-sdk/core/redis`: a store of keys, values and counters in Redis.
export { RedisKeyValueStore } from '@svc/core/redis'
