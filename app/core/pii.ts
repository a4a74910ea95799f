// `svc-sdk/core/pii`: detectors of personal data and secrets.
export { detectPii, type PiiKind, type PiiMatch, redactPii } from '@svc/core/pii'
