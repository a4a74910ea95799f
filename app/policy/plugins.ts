// The list of the plugins that ship, and the parts that they get from each other, as plugins import only core.
import { bindDefault, type SectionsOf } from '@svc/core'
import { ap2Plugin, usedMandateStore } from '@svc/plugin-ap2'
import { auditPlugin } from '@svc/plugin-audit'
import { authnPlugin } from '@svc/plugin-authn'
import { brokersPlugin } from '@svc/plugin-brokers'
import { dedupePlugin, dedupeSchema, dedupeStore } from '@svc/plugin-dedupe'
import { enforcementPlugin } from '@svc/plugin-enforcement'
import { entitlementsPlugin } from '@svc/plugin-entitlements'
import { privacyPlugin } from '@svc/plugin-privacy'
import { protectionsPlugin } from '@svc/plugin-protections'
import { quotasPlugin } from '@svc/plugin-quotas'
import { rulesPlugin } from '@svc/plugin-rules'
import { runtimePlugin } from '@svc/plugin-runtime'
import { securityPlugin } from '@svc/plugin-security'
import type { DependencyContainer } from 'tsyringe'
import { blocksPlugin } from '../blocks/plugin.js'

/** The plugins that ship: the default registration of `pluginToken`. */
export const builtinPlugins = [
  auditPlugin,
  privacyPlugin,
  authnPlugin,
  blocksPlugin,
  entitlementsPlugin,
  securityPlugin,
  rulesPlugin,
  protectionsPlugin,
  ap2Plugin,
  runtimePlugin,
  enforcementPlugin,
  dedupePlugin,
  quotasPlugin,
  brokersPlugin,
] as const

/** Keeps used mandates in a store like that of idempotency keys. */
export function bindBetweenPlugins(container: DependencyContainer): void {
  bindDefault(container, usedMandateStore, {
    useValue: (context) => dedupeStore(dedupeSchema.parse({}), context),
  })
}

/** What the policy of a gateway needs, and which section has a second place. */
export const sectionRules = {
  required: [auditPlugin.name, quotasPlugin.name],
  nested: { [ap2Plugin.name]: securityPlugin.name },
} as const

/** Sections without which there is no gateway. */
export type RequiredSection = (typeof sectionRules.required)[number]

type Sections = SectionsOf<typeof builtinPlugins>

/** The sections of a policy, as code passes them: inferred from the plugins that ship. */
export type MiddlewareConfig = Sections & Required<Pick<Sections, RequiredSection>>
