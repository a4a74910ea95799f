export { type DedupeConfig, dedupeSchema } from './config.js'
export { type MemoryDedupeOptions, MemoryDedupeStore } from './memory/store.js'
export { dedupePlugin } from './plugin.js'
