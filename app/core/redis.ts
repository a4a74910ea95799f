// `svc-sdk/core/redis`: see `@svc/core/redis`.
export * from '@svc/core/redis'
