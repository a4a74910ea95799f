// Keys and secrets by reference.

export { cachedFor } from './cached-for.js'
export { isKeyError, KeyError, type KeyErrorCode } from './key-error.js'
export { type KeyLocation, KeyReader } from './key-reader.js'
export { loadOrCreateKey, type PersistedKey } from './persisted-key.js'
