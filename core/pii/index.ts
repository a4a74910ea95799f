export { detectPii, type PiiMatch, type RedactOptions, redactPii } from './detect.js'
export { type PersonalDataKind, type PiiKind, personalDataKinds, type SecretKind } from './kinds.js'
