// Compiled only: the types of the contract are importable from `svc-sdk`, and say what they should.
import {
  type AuditEnvelope,
  createPipeline,
  type GatewayOptions,
  type OIDCConfig,
  type PlanConfig,
  type QuotaAdapter,
  type Signer,
  startGatewayServer,
  type TenantEntitlement,
} from 'svc-sdk'
import { definePlugin } from 'svc-sdk/core'
import { z } from 'zod'

export const oidc: OIDCConfig = {
  issuer: 'https://id.example',
  audience: 'a',
  jwks_uri: 'https://id.example/jwks',
}
// @ts-expect-error: an audience is required.
export const incomplete: OIDCConfig = { issuer: 'https://id.example', jwks_uri: 'https://id.example/jwks' }
export const plan: PlanConfig = { calls_per_day: 10, allowlist: ['files/read'] }
export const tenant: TenantEntitlement = { plan: 'free', allowlist: [] }
// @ts-expect-error: an allowlist is required.
export const open: TenantEntitlement = { plan: 'free' }
export const keyIdOf = (signer: Signer): string => signer.keyId
export const decisionOf = ({ policy }: AuditEnvelope): 'allow' | 'deny' => policy.decision
export const count = (quotas: QuotaAdapter): Promise<{ count: number }> => quotas.incrDaily('acme', 'read', 1)

const base = {
  port: 0,
  tenant: 'acme',
  targets: {},
  audit: { gatewayName: 'gw', gatewayVersion: '1' },
  quotas: { adapter: 'memory' },
} as const
export const complete: GatewayOptions = base
export const withYaml: GatewayOptions = { policyYaml: 'tenant: acme' }
export const withObject: GatewayOptions = { policyObject: {}, port: 0 }
const { port: _port, ...portless } = base
// @ts-expect-error: without a policy the port is required,
export const noPort: GatewayOptions = portless
const { tenant: _tenant, ...tenantless } = base
// @ts-expect-error: the tenant,
export const noTenant: GatewayOptions = tenantless
const { targets: _targets, ...targetless } = base
// @ts-expect-error: the targets,
export const noTargets: GatewayOptions = targetless
const { audit: _audit, ...auditless } = base
// @ts-expect-error: audit
export const noAudit: GatewayOptions = auditless
const { quotas: _quotas, ...quotaless } = base
// @ts-expect-error: and quotas.
export const noQuotas: GatewayOptions = quotaless

const strategy = { approval_strategy: 'human_quorum' } as const
export const snake: GatewayOptions = { ...base, security: { side_effects: { human_escalation: strategy } } }
export const camel: GatewayOptions = { ...base, security: { side_effects: { humanEscalation: strategy } } }
const wrong = { approval_strategy: 'nobody' } as const
// @ts-expect-error: both spellings have the same type.
export const typo: GatewayOptions = { ...base, security: { side_effects: { humanEscalation: wrong } } }

const freeze = definePlugin({
  name: 'freeze',
  version: '1.0.0',
  core: '^1.0.0',
  schema: z.strictObject({ from: z.string() }),
  create: () => ({ handle: (_call, next) => next() }),
})
export const start = () => [
  startGatewayServer({ ...base, plugins: [freeze], freeze: { from: '2026-12-20' } }),
  createPipeline({ ...base, plugins: [freeze], freeze: { from: '2026-12-20' } }),
  // @ts-expect-error: the section has the type that the schema of its plugin says.
  startGatewayServer({ ...base, plugins: [freeze], freeze: { from: 1 } }),
  // @ts-expect-error: no plugin has this section.
  startGatewayServer({ ...base, plugins: [freeze], freese: { from: '2026-12-20' } }),
  // @ts-expect-error: a section needs its plugin.
  startGatewayServer({ ...base, freeze: { from: '2026-12-20' } }),
]

const replacement = definePlugin({
  name: 'privacy',
  version: '2.0.0',
  core: '^1.0.0',
  schema: z.strictObject({ level: z.number() }),
  create: () => ({ handle: (_call, next) => next() }),
})
export const replaced = () => startGatewayServer({ ...base, plugins: [replacement], privacy: { level: 1 } })
