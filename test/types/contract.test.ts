// Compiled only: the types of the contract are importable from `svc-sdk`, and say what they should.
import type { AuditEnvelope, OIDCConfig, PlanConfig, QuotaAdapter, Signer, TenantEntitlement } from 'svc-sdk'

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
