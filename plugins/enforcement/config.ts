// The `enforcement` section (contract.md §2.10).
import { notYet } from '@svc/core'
import { z } from 'zod'

export const enforcementSchema = z.strictObject({
  /** `observe` records what would have been denied; `enforce` denies it. */
  mode: z.enum(['observe', 'enforce']).default('enforce'),
  /** Reason tokens that deny. Absent: every finding does; empty: none does. */
  deny_on: z.array(z.string().min(1)).optional(),
  escalate_on: notYet('escalate_on'),
})

export type EnforcementConfig = z.infer<typeof enforcementSchema>
