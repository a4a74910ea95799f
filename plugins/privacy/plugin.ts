// The `privacy` section: pseudonyms in place of identities in records, logs and spans.
import { definePlugin, redactor } from '@svc/core'
import { KeyReader, loadOrCreateKey } from '@svc/core/secret'
import { privacySchema } from './config.js'
import { PrivacyStage } from './stage.js'

export const privacyPlugin = definePlugin({
  name: 'privacy',
  version: '0.1.0',
  core: '^1.0.0',
  schema: privacySchema,
  phase: 'redaction',
  mayProvide: [redactor],
  check({ key_ref }, { place }) {
    const message = key_ref && place && new KeyReader(place).fileFault(key_ref)
    return message ? [{ path: ['privacy', 'key_ref'], message }] : []
  },
  create: (config, context) =>
    new PrivacyStage({
      isEnabled: config.redact_identities,
      // A keyed hash prevents guessing: a plain hash could be compared with hashes of known addresses.
      key: () => loadOrCreateKey({ fileName: 'privacy.key', ref: config.key_ref, owner: 'privacy' }, context),
    }),
})
