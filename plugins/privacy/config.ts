// Schema of the `privacy` section.
import { keyRefSchema } from '@svc/core/policy'
import { z } from 'zod'

export const privacySchema = z
  .strictObject({
    redact_identities: z
      .boolean()
      .default(false)
      .describe('Whether records, logs and spans contain pseudonyms in place of identities.'),
    key_ref: keyRefSchema
      .optional()
      .describe(
        'Key of the pseudonyms: `env:NAME` or `file://PATH`. Default: `privacy.key` in sec0Dir, created on first use.',
      ),
  })
  .describe('Redaction of identities in records, logs and spans.')
