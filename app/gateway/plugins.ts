// The one list of what ships, and the order it runs in.
import type { Plugin } from '@svc/core'
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

/** The sections that ship. */
export const builtinPlugins: readonly Plugin[] = [
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
]

/** Outermost first; a policy's `pipeline` takes its place. */
export const defaultOrder: readonly string[] = [
  'audit', //        outermost: whatever happens inside, denied, failed or served, becomes one record
  'privacy', //      directly below, so that it decides what the record and all below it tell of people
  'authn', //        before anything that asks who is calling; the body is read only after it
  'entitlements', // what the caller may use; fills the limits that quotas count
  'security', //     what the arguments and versions would touch
  'ap2', //          whether a mandate covers the payment
  'runtime', //      a remote judge sees every finding there is
  'enforcement', //  the one verdict, after all that find and before anything is spent
  'dedupe', //       before quotas, so that a replay costs no quota
  'quotas', //       counts only what was allowed and is no duplicate
  'brokers', //      last: a credential is fetched only for a call that will be sent
]
