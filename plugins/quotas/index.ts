export { quotasPlugin } from './plugin.js'
export { MemoryQuotaAdapter } from './store/adapter.js'
export { quotaAdapters } from './stores.js'
