// The one list of what ships.
import type { SectionsOf } from '@svc/core'
import { ap2Plugin } from '@svc/plugin-ap2'
import { auditPlugin } from '@svc/plugin-audit'
import { authnPlugin } from '@svc/plugin-authn'
import { brokersPlugin } from '@svc/plugin-brokers'
import { dedupePlugin } from '@svc/plugin-dedupe'
import { enforcementPlugin } from '@svc/plugin-enforcement'
import { entitlementsPlugin } from '@svc/plugin-entitlements'
import { privacyPlugin } from '@svc/plugin-privacy'
import { quotasPlugin } from '@svc/plugin-quotas'
import { runtimePlugin } from '@svc/plugin-runtime'
import { securityPlugin } from '@svc/plugin-security'

/** The plugins that ship: the default registration of `pluginToken`. */
export const builtinPlugins = [
  auditPlugin,
  privacyPlugin,
  authnPlugin,
  entitlementsPlugin,
  securityPlugin,
  ap2Plugin,
  runtimePlugin,
  enforcementPlugin,
  dedupePlugin,
  quotasPlugin,
  brokersPlugin,
] as const

/** The sections of a policy, as code passes them: inferred from the plugins that ship. */
export type MiddlewareConfig = SectionsOf<typeof builtinPlugins>
