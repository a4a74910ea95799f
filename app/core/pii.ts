// `svc-sdk/core/pii`: detectors of personal data and secrets.
export { detectPii, redactPii } from '@svc/core/pii'
