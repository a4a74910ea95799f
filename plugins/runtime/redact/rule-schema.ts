// What a runtime may say with the obligation `redact_output`. No regular expressions: answers are hostile input, and a
// pattern from elsewhere could be made to hang on them.
import { z } from 'zod'

const detectorNames = ['email', 'payment_card', 'iban', 'us_ssn', 'phone'] as const

export type DetectorName = (typeof detectorNames)[number]

const detector = z.union([z.enum(detectorNames), z.strictObject({ literal: z.string().min(1).max(1024) })])

/** Nothing said means everything. */
export const outputRuleSchema = z.strictObject({
  all: z.literal(true).optional(),
  paths: z.array(z.string().min(1).max(256)).min(1).max(64).optional(),
  patterns: z.array(detector).min(1).max(64).optional(),
  replacement: z.string().max(256).optional(),
})

export type OutputRuleParams = z.output<typeof outputRuleSchema>
