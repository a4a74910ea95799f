// `svc-sdk/core/secret`: keys by reference.
export { type KeyLocation, KeyReader } from '@svc/core/secret'
