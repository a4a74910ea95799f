// The exports of `svc-sdk`. Some types of the configuration have their contract names here, derived from the schemas of
// the sections.
import type { MiddlewareConfig } from './gateway/index.js'

export type { QuotaAdapter, Signer } from '@svc/core'
export type { AuditEnvelope } from '@svc/plugin-audit/log'
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
export {
  type CallContext,
  GovernanceError,
  type Governed,
  type GovernedTool,
  type GovernOptions,
  govern,
  governed,
  isGovernanceError,
  type RunningCall,
} from './in-process/governed.js'
export { createPipeline, type EmbeddedPipeline } from './in-process/pipeline.js'
export type { CallerIdentity, ToolCall } from './in-process/tool-call.js'

type Authn = NonNullable<MiddlewareConfig['authn']>
type Entitlements = Exclude<NonNullable<MiddlewareConfig['entitlements']>, string>

/** Contract §2.7: one issuer; `authn.oidc` is one, or a list of them. */
export type OIDCConfig = Exclude<NonNullable<Authn['oidc']>, readonly unknown[]>
/** Contract §2.8. */
export type PlanConfig = Entitlements['plans'][string]
/** Contract §2.8. */
export type TenantEntitlement = Entitlements['tenants'][string]
