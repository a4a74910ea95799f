export { RedisQuotaAdapter } from './adapter.js'
export { LeasedQuotaAdapter } from './leased-adapter.js'
// For `bench/`, which runs it without the adapter.
export { countDaily } from './scripts.js'
