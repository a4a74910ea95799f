export { type DedupeConfig, dedupeSchema } from './config.js'
export { dedupePlugin } from './plugin.js'
export { type MemoryDedupeOptions, MemoryDedupeStore } from './store/memory/store.js'
export { dedupeStore } from './stores.js'
