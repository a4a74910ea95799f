// `svc-sdk/core/store`: see `@svc/core/store`.
export * from '@svc/core/store'
