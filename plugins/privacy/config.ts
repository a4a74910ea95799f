// Schema of the `privacy` section.
import { z } from 'zod'

export const privacySchema = z
  .strictObject({
    redact_identities: z
      .boolean()
      .default(false)
      .describe('Whether records, logs and spans contain pseudonyms in place of identities.'),
    key_ref: z
      .string()
      .regex(/^(?:env:|file:\/\/)./, 'not a key reference; accepted are env:NAME and file://PATH')
      .optional()
      .describe(
        'Key of the pseudonyms: `env:NAME` or `file://PATH`. Default: `privacy.key` in sec0Dir, created on first use.',
      ),
  })
  .describe('Redaction of identities in records, logs and spans.')

export type PrivacyConfig = z.output<typeof privacySchema>
