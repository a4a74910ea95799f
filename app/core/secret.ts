// `svc-sdk/core/secret`: keys by reference.
export { isKeyError, type KeyLocation, KeyReader } from '@svc/core/secret'
