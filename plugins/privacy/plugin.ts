// The `privacy` section: pseudonyms in place of identities in records, logs and spans.
import { bindDefault, checkUsable, definePlugin, hostOf, redactor, services } from '@svc/core'
import { keyRefSchema } from '@svc/core/policy'
import { KeyReader, loadOrCreateKey } from '@svc/core/secret'
import { z } from 'zod'
import { PrivacyStage } from './stage.js'

const privacySchema = z
  .strictObject({
    redact_identities: z
      .boolean()
      .default(false)
      .describe('Whether records, logs and spans contain pseudonyms in place of identities.'),
    key_ref: keyRefSchema
      .optional()
      .describe(
        'Key of the pseudonyms: `env:NAME`, `file://PATH` or `command:NAME`. Default: `privacy.key` in sec0Dir, created on first use.',
      ),
  })
  .describe('Redaction of identities in records, logs and spans.')

export const privacyPlugin = definePlugin({
  name: 'privacy',
  version: '1.0.0',
  core: '^1.0.0',
  schema: privacySchema,
  phase: 'redaction',
  provides: [redactor],
  check({ key_ref }, bindings) {
    const { place } = hostOf(bindings)
    const message = key_ref && place && new KeyReader(place).fileError(key_ref)
    return message ? [{ path: ['privacy', 'key_ref'], message }] : []
  },
  create({ redact_identities: isEnabled, key_ref: ref }, context) {
    // A keyed hash prevents guessing: a plain hash could be compared with hashes of known addresses.
    const key = () => loadOrCreateKey({ fileName: 'privacy.key', ref, owner: 'privacy' }, context)
    const given = { fileName: '', ref, owner: 'privacy.key_ref' }
    const hint = '`openssl rand -base64 32` makes a key'
    const check = () => checkUsable('the key of the pseudonyms', hint, () => loadOrCreateKey(given, context))
    const stage = new PrivacyStage({
      isEnabled,
      key,
      doctor: async () => (isEnabled && ref !== undefined ? [await check()] : []),
    })
    if (isEnabled) bindDefault(context.container, services.redactor, { useCurrent: () => stage.redactor })
    return stage
  },
})
