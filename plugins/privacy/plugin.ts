// The section is known and documented, and refused at load until its stage is written.
import { definePlugin } from '@svc/core'
import { type PrivacyConfig, privacySchema } from './config.js'
import { PrivacyStage } from './stage.js'

export const privacyPlugin = definePlugin<PrivacyConfig>({
  name: 'privacy',
  version: '0.1.0',
  core: '^1.0.0',
  schema: privacySchema,
  available: false,
  create: () => new PrivacyStage(),
})
