// The part of `json` that the pages of the gateway load too: it uses nothing of Node.

export { parseBase64, toBase64 } from './base64.js'
export { canonicalize } from './canonical.js'
export { CanonicalJsonError } from './errors.js'
export { isJsonObject, parseJsonObject } from './parse-object.js'
export { isHidden, splitAtHidden, visibleInLine } from './visible.js'
