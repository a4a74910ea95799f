// A subpath of its own, so that the native module is loaded only on use.

export { LmdbKeyValueStore } from './key-value.js'
export { LmdbStore } from './store.js'
