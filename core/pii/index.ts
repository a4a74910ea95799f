// One detector of personal data and secrets in text. It imports nothing else of core except the words of names.
export { detectPii, type PiiMatch, redactPii } from './detect.js'
export { knownSecretKinds, matchesOf, type PiiKind, personalDataKinds, type Span } from './kinds.js'
export { isSecretName } from './named-secret.js'
