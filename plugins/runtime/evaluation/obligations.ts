// Obligations attached to a decision. An unknown or malformed obligation invalidates the decision, because the gateway
// cannot fulfil it.
import type { Obligation } from '@svc/core'
import { z } from 'zod'
import { compileRule, type OutputRule } from '../redact/rule.js'
import { outputRuleSchema } from '../redact/rule-schema.js'
import { EvaluationError } from './error.js'

export interface Obligations {
  readonly needsApproval: boolean
  /** Applied in this order, each to the result of the previous one. */
  readonly redactions: readonly OutputRule[]
}

const approvalSchema = z.strictObject({ reason: z.string().max(1024).optional() })

const noObligations: Obligations = { needsApproval: false, redactions: [] }

/** Throws `EvaluationError`. */
export function parseObligations(list: readonly Obligation[] | undefined): Obligations {
  if (list === undefined || list.length === 0) return noObligations
  let needsApproval = false
  const redactions: OutputRule[] = []
  for (const { type, params = {} } of list) {
    if (type === 'require_approval' && approvalSchema.safeParse(params).success) needsApproval = true
    else if (type === 'redact_output') redactions.push(parseRule(params))
    else throw new EvaluationError('the decision has an obligation that is not supported', 'invalid')
  }
  return { needsApproval, redactions }
}

function parseRule(params: object): OutputRule {
  const parsed = outputRuleSchema.safeParse(params)
  const rule = parsed.success ? compileRule(parsed.data) : undefined
  if (rule !== undefined) return rule
  throw new EvaluationError('the decision has a redact_output obligation that is not supported', 'invalid')
}
