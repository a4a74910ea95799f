// `svc-sdk/core/http`: see `@svc/core/http`.
export * from '@svc/core/http'
