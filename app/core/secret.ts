// `svc-sdk/core/secret`: see `@svc/core/secret`.
export * from '@svc/core/secret'
