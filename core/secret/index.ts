// Keys and secrets by reference.
export { type KeptKey, keptKey } from './kept-key.js'
export { isKeyError, KeyError, type KeyErrorCode } from './key-error.js'
export { type KeyPlace, KeyReader } from './key-reader.js'
