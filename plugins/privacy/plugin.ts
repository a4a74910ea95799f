// The `privacy` section: pseudonyms in place of identities in records, logs and spans.
import { checkUsable, definePlugin, redactor } from '@svc/core'
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
  doctor: async ({ redact_identities, key_ref: ref }, context) => {
    if (!redact_identities || ref === undefined) return []
    const hint = '`openssl rand -base64 32` makes a key'
    const key = { fileName: '', ref, owner: 'privacy.key_ref' }
    return [await checkUsable('the key of the pseudonyms', hint, () => loadOrCreateKey(key, context))]
  },
})
