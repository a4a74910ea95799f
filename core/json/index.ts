// Canonical JSON, strict parsing and encodings. Worker threads load this module, so it imports no policy, container or
// schema code.

export { isUrl } from '../match/is-url.js'
export { Base64Error, fromBase64, parseBase64, toBase64, writeBase64 } from './base64.js'
export {
  canonicalize,
  canonicalizeAround,
  canonicalizeExact,
  type WrittenMember,
} from './canonical.js'
export { defined } from './defined.js'
export { CanonicalJsonError } from './errors.js'
export { readDigest, resultDigest, sha256Base64url, sha256Hex, writeDigest } from './hash.js'
export { type JsonInputCode, JsonInputError } from './input-error.js'
export { hasDuplicateMembers, hasMembersAlike, membersLike, outermostMembers } from './members.js'
export { messageOf, reasonOf } from './message.js'
export { canonicalNumber, isExactNumber } from './number.js'
export { parseJson } from './parse.js'
export { isJsonObject, parseExactObject, parseJsonContainer, parseJsonObject } from './parse-object.js'
export { shownPath } from './path.js'
export { pathSegment } from './path-segment.js'
export { isTooCostly, MAX_COST, measureJson } from './structure.js'
export {
  compareNumbers,
  exactDouble,
  isJsonNumber,
  isMultipleOf,
  JsonNumber,
  parseJsonText,
  stringifyJson,
} from './text.js'
export type { JsonObject, JsonValue } from './value.js'
export { visible, visibleInLine } from './visible.js'
