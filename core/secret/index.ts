// Keys and secrets by reference.

export { isKeyError, KeyError } from './key-error.js'
export { isBelow } from './key-file.js'
export { cachedFor, type KeyLocation, type KeyPlace, KeyReader } from './key-reader.js'
export { loadOrCreateKey } from './persisted-key.js'
