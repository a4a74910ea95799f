// The exports of `svc-sdk`.
export type { QuotaAdapter, Signer } from '@svc/core'
export type { AuditEnvelope } from '@svc/plugin-audit/log'
export type { OIDCConfig, PlanConfig, TenantEntitlement } from './contract-types.js'
export { createPipeline, type EmbeddedPipeline, type ToolCall } from './embed.js'
export {
  type GatewayHandle,
  type GatewayOptions,
  type GatewaySettings,
  type HostConfig,
  type Listening,
  type MiddlewareConfig,
  PolicyError,
  startGatewayServer,
} from './gateway/index.js'
