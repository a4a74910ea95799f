// `svc-sdk/core/pipeline`: see `@svc/core/pipeline`.
export * from '@svc/core/pipeline'
