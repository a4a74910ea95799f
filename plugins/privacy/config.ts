// The `privacy` section (contract.md §2.10).
import { z } from 'zod'

export const privacySchema = z
  .strictObject({
    redact_identities: z
      .boolean()
      .default(false)
      .describe('Redact who called in records and spans of the gateway.'),
  })
  .describe('What records and spans tell of the people behind a call.')

export type PrivacyConfig = z.output<typeof privacySchema>
