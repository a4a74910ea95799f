// A separate subpath, so that only its users load the native module of LMDB.
export { LmdbStore, type LmdbStoreOptions } from './store.js'
