export { dedupeSchema } from './config.js'
export { dedupePlugin } from './plugin.js'
export { dedupeStore } from './stores.js'
