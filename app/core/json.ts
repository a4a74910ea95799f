// `svc-sdk/core/json`: see `@svc/core/json`.
export * from '@svc/core/json'
