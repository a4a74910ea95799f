export { LeasedQuotaAdapter } from './leased-store.js'
// `bench/` runs it without the adapter.
export { countDaily } from './scripts.js'
export { RedisQuotaAdapter } from './store.js'
