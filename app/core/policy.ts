// `svc-sdk/core/policy`: see `@svc/core/policy`.
export * from '@svc/core/policy'
