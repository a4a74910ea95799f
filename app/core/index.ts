// `svc-sdk/core`: the contract of stages, plugins and calls, the tokens of the plugins that ship, and the parts of
// `security` that a replacement of it uses.
export * from '@svc/core'
export { type JwksSource, jwksSource } from '@svc/plugin-authn'
export { type CredentialSource, credentialSource } from '@svc/plugin-brokers'
export { type QuotaAdapterFactory, quotaAdapters } from '@svc/plugin-quotas'
export {
  type ContentRule,
  checkContent,
  contentRules,
  type SecurityConfig,
  securityPlugin,
  securitySchema,
} from '@svc/plugin-security'
export {
  isUpstreamError,
  type UpstreamAnswer,
  UpstreamError,
  type UpstreamRequest,
} from '../upstream/answer.js'
export { type UpstreamDispatcher, upstreamDispatcher } from '../upstream/dispatcher.js'
