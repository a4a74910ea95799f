// Obligations attached to a decision. With an unknown or malformed obligation a decision cannot allow the call, because
// the gateway cannot fulfil it.
import type { Evaluation, Obligation } from '@svc/core'
import { z } from 'zod'
import { compileRule, type OutputRule, outputRuleSchema } from '../redact/rule.js'
import { EvaluationError } from './error.js'

interface Obligations {
  readonly needsApproval: boolean
  /** Applied in this order, each to the result of the previous one. */
  readonly redactions: readonly OutputRule[]
}

const approvalSchema = z.strictObject({ reason: z.string().max(1024).optional() })

export interface Decision {
  readonly evaluation: Evaluation
  readonly obligations: Obligations
}

const noObligations: Obligations = { needsApproval: false, redactions: [] }

/**
 * The decision that the gateway can carry out: an escalation with an obligation that it does not support is a denial.
 *
 * @throws {EvaluationError} for `allow` with such an obligation.
 */
export function decisionOf(evaluation: Evaluation): Decision {
  const { action, obligations = [] } = evaluation
  if (action === 'deny' || action === 'clarify') return { evaluation, obligations: noObligations }
  try {
    return { evaluation, obligations: parseObligations(obligations) }
  } catch (error) {
    if (action === 'allow' || !(error instanceof EvaluationError)) throw error
    return { evaluation: { ...evaluation, action: 'deny' }, obligations: noObligations }
  }
}

function parseObligations(list: readonly Obligation[]): Obligations {
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
