// A subpath of its own: who needs no LMDB does not load its native module.
export { LmdbStore, type LmdbStoreOptions } from './store.js'
