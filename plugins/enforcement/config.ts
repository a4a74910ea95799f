// The `enforcement` section.
import { z } from 'zod'
import { escalationsSchema } from './escalation/config.js'

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
    escalate_on: z
      .array(z.string().min(1))
      .optional()
      .describe(
        'Reason tokens that escalate the call to reviewers, whether or not `deny_on` names them; needs `security.side_effects.approve_high_risk`.',
      ),
    escalations: escalationsSchema,
  })
  .describe('Which findings deny a call.')

export type EnforcementConfig = z.infer<typeof enforcementSchema>
