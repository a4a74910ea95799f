// The types of contract.md §2 by their names there, derived from the sections' schemas.
import type { MiddlewareConfig } from './gateway/index.js'

type Authn = NonNullable<MiddlewareConfig['authn']>
type Entitlements = Exclude<NonNullable<MiddlewareConfig['entitlements']>, string>

/** §2.7. */
export type OIDCConfig = NonNullable<Authn['oidc']>
/** §2.8. */
export type PlanConfig = Entitlements['plans'][string]
/** §2.8. */
export type TenantEntitlement = Entitlements['tenants'][string]
