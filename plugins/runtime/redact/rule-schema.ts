// Schema of the params of `redact_output`. Regular expressions are not supported, because a response could be written to
// make one backtrack without end.
import { personalDataKinds } from '@svc/core/pii'
import { z } from 'zod'

const pattern = z.union([z.enum(personalDataKinds), z.strictObject({ literal: z.string().min(1).max(1024) })])

/** Without `paths` and `patterns`, the whole response is redacted. */
export const outputRuleSchema = z.strictObject({
  all: z.literal(true).optional(),
  paths: z.array(z.string().min(1).max(256)).min(1).max(64).optional(),
  patterns: z.array(pattern).min(1).max(64).optional(),
  replacement: z.string().max(256).optional(),
})

export type OutputRuleParams = z.output<typeof outputRuleSchema>
