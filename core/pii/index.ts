// One detector of personal data and secrets in text. It imports none of the rest of core but the words of names.
export { detectPii, type PiiMatch, type RedactOptions, redactPii } from './detect.js'
export { type PersonalDataKind, type PiiKind, personalDataKinds, type SecretKind } from './kinds.js'
