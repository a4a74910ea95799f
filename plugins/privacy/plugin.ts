// The `privacy` section: what is written of the people behind a call.
import { definePlugin, redactor } from '@svc/core'
import { type PrivacyConfig, privacySchema } from './config.js'
import { privacyKey } from './key.js'
import { PrivacyStage } from './stage.js'

export const privacyPlugin = definePlugin<PrivacyConfig>({
  name: 'privacy',
  version: '0.1.0',
  core: '^1.0.0',
  schema: privacySchema,
  provides: [redactor],
  create: (config, context) =>
    new PrivacyStage({
      isOn: config.redact_identities,
      key: () => privacyKey(config.key_ref, context),
    }),
})
