// A subpath of its own, so that the native module is loaded only on use.

export { StoreTime } from '../host-time.js'
export { LmdbBoard } from './board.js'
export { LmdbMap, type MapKey } from './map.js'
export { LmdbSharedStore } from './shared-store.js'
export { LmdbStore } from './store.js'
