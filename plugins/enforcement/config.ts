// The `enforcement` section (contract.md §2.10).
import { notYet } from '@svc/core'
import { z } from 'zod'

export const enforcementSchema = z
  .strictObject({
    mode: z
      .enum(['observe', 'enforce'])
      .default('enforce')
      .describe('`observe` records what would have been denied; `enforce` denies it.'),
    deny_on: z
      .array(z.string().min(1))
      .optional()
      .describe('Reason tokens that deny. Absent: every finding does; empty: none does.'),
    escalate_on: notYet('escalate_on'),
  })
  .describe('Which findings deny a call.')

export type EnforcementConfig = z.infer<typeof enforcementSchema>
