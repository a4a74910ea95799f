export { type QuotaAdapterFactory, quotaAdapters } from './adapters.js'
export { type QuotasConfig, quotasSchema } from './config.js'
export { MemoryQuotaAdapter } from './memory/adapter.js'
export { quotasPlugin } from './plugin.js'
