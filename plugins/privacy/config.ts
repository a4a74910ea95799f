// The `privacy` section (contract.md §2.10), and where its key comes from.
import { z } from 'zod'

export const privacySchema = z
  .strictObject({
    redact_identities: z
      .boolean()
      .default(false)
      .describe('Put pseudonyms in place of who called, in records, logs and spans of the gateway.'),
    key_ref: z
      .string()
      .regex(/^(?:env:|file:\/\/)./, 'not a key reference; accepted are env:NAME and file://PATH')
      .optional()
      .describe(
        'The key of the pseudonyms, `env:NAME` or `file://PATH`; by default `privacy.key` in sec0Dir, made on first use.',
      ),
  })
  .describe('What records, logs and spans tell of the people behind a call.')

export type PrivacyConfig = z.output<typeof privacySchema>
