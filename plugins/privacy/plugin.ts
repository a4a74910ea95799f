// The `privacy` section: what is written of the people behind a call.
import { definePlugin, redactor } from '@svc/core'
import { loadOrCreateKey } from '@svc/core/secret'
import { privacySchema } from './config.js'
import { PrivacyStage } from './stage.js'

export const privacyPlugin = definePlugin({
  name: 'privacy',
  version: '0.1.0',
  core: '^1.0.0',
  schema: privacySchema,
  phase: 'redaction',
  provides: [redactor],
  create: (config, context) =>
    new PrivacyStage({
      isOn: config.redact_identities,
      // Without it nobody can hash a list of e-mail addresses and compare.
      key: () => loadOrCreateKey({ fileName: 'privacy.key', ref: config.key_ref, owner: 'privacy' }, context),
    }),
})
