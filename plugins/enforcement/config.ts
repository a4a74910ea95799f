// The `enforcement` section (contract.md §2.10).
import { z } from 'zod'

const NOT_YET = 'not available yet: escalation comes in a later release'

export const enforcementSchema = z.strictObject({
  /** `observe` records what would have been denied; `enforce` denies it. */
  mode: z.enum(['observe', 'enforce']).default('enforce'),
  /** Reason tokens that deny. Absent: every finding does; empty: none does. */
  deny_on: z.array(z.string().min(1)).optional(),
  escalate_on: z.never({ error: NOT_YET }).optional(),
})

export type EnforcementConfig = z.infer<typeof enforcementSchema>
