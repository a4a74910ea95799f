// `svc-sdk/core/pii`: see `@svc/core/pii`.
export * from '@svc/core/pii'
