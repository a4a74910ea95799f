// One detector of personal data and secrets in text. Of the rest of core it imports only the words of names.
export { detectPii, type PiiMatch, redactPii } from './detect.js'
export { type PiiKind, personalDataKinds } from './kinds.js'
