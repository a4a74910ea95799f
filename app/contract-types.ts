// The configuration types under their contract names, derived from the schemas of the sections.
import type { MiddlewareConfig } from './gateway/index.js'

type Authn = NonNullable<MiddlewareConfig['authn']>
type Entitlements = Exclude<NonNullable<MiddlewareConfig['entitlements']>, string>

/** §2.7. */
export type OIDCConfig = NonNullable<Authn['oidc']>
/** §2.8. */
export type PlanConfig = Entitlements['plans'][string]
/** §2.8. */
export type TenantEntitlement = Entitlements['tenants'][string]
