export { type DedupeConfig, dedupeSchema } from './config.js'
export { dedupePlugin } from './plugin.js'
