// The exports of `svc-sdk`.
export type { QuotaAdapter, Signer } from '@svc/core'
export type { AuditEnvelope } from '@svc/plugin-audit/log'
export type { OIDCConfig, PlanConfig, TenantEntitlement } from './contract-types.js'
export {
  type GatewayHandle,
  type GatewayOptions,
  type GatewaySettings,
  type HostConfig,
  type Listening,
  type MiddlewareConfig,
  type PipelineOptions,
  PolicyError,
  startGatewayServer,
} from './gateway/index.js'
export { type GovernOptions, govern } from './in-process/ai-tools.js'
export { GovernanceError, isGovernanceError } from './in-process/governance-error.js'
export {
  type CallContext,
  type Governed,
  type GovernedTool,
  governed,
  type RunningCall,
} from './in-process/governed.js'
export { createPipeline, type EmbeddedPipeline } from './in-process/pipeline.js'
export type { CallerIdentity, ToolCall } from './in-process/tool-call.js'
