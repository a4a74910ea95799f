export { dedupeSchema } from './config.js'
export { dedupePlugin } from './plugin.js'
export { MemoryDedupeStore } from './store/memory/store.js'
export { dedupeStore } from './stores.js'
