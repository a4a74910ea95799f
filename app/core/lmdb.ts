// `svc-sdk/core/lmdb`: see `@svc/core/lmdb`.
export * from '@svc/core/lmdb'
