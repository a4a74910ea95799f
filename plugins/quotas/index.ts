export { type QuotasConfig, quotasSchema } from './config.js'
export { quotasPlugin } from './plugin.js'
export { MemoryQuotaAdapter } from './store/memory/counts.js'
export { type QuotaAdapterFactory, quotaAdapters } from './stores.js'
