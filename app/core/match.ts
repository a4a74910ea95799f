// `svc-sdk/core/match`: see `@svc/core/match`.
export * from '@svc/core/match'
