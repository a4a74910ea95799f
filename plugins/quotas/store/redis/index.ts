export { LeasedQuotaAdapter } from './leased-store.js'
// `bench/` runs it without the adapter.
export { countLimits } from './scripts.js'
export { RedisQuotaAdapter } from './store.js'
