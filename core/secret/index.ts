// Keys and secrets by reference.

export { cachedFor } from './cached-for.js'
export { isKeyError, KeyError } from './key-error.js'
export { type KeyLocation, KeyReader } from './key-reader.js'
export { loadOrCreateKey } from './persisted-key.js'
