export { quotasPlugin } from './plugin.js'
export { MemoryQuotaAdapter } from './store/memory/counts.js'
export { quotaAdapters } from './stores.js'
