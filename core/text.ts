// The part of core that threads load: what a line of a log is made of, without policies, containers and schemas,
// whose loading would cost a thread more than a hundred milliseconds.
export { Base64Error, fromBase64 } from './base64.js'
export { messageOf } from './errors.js'
export { canonicalizeAround, joinCut, joinCutWith } from './json/canonical.js'
export { CanonicalJsonError } from './json/errors.js'
