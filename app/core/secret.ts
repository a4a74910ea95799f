// `svc-sdk/core/secret`: keys by reference.
export { KeyReader } from '@svc/core/secret'
