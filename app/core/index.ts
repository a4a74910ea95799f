// `svc-sdk/core`: the contract of stages, plugins and calls, and the tokens of the plugins that ship.
export * from '@svc/core'
export { type JwksSource, jwksSource } from '@svc/plugin-authn'
export { type CredentialSource, credentialSource } from '@svc/plugin-brokers'
export { type QuotaAdapterFactory, quotaAdapters } from '@svc/plugin-quotas'
export {
  isUpstreamError,
  type UpstreamAnswer,
  UpstreamError,
  type UpstreamRequest,
} from '../upstream/answer.js'
export { type UpstreamDispatcher, upstreamDispatcher } from '../upstream/dispatcher.js'
