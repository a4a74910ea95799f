// A subpath of its own, so that the native module is loaded only where it is used.
export { LmdbStore } from './store.js'
