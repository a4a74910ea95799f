// What a decision obliges the gateway to do. One that it does not know, or not in this form, cannot be honoured: the
// decision then does not hold.
import type { Obligation } from '@svc/core'
import { z } from 'zod'
import { EvaluationFault } from './fault.js'
import { compileRule, type OutputRule } from './redact/rule.js'
import { outputRuleSchema } from './redact/rule-schema.js'

export interface Obligations {
  readonly needsApproval: boolean
  /** In the order given; each works on what the one before has left. */
  readonly redactions: readonly OutputRule[]
}

const approvalSchema = z.strictObject({ reason: z.string().max(1024).optional() })

const noObligations: Obligations = { needsApproval: false, redactions: [] }

/** Throws `EvaluationFault`. */
export function obligationsOf(list: readonly Obligation[] | undefined): Obligations {
  if (list === undefined || list.length === 0) return noObligations
  let needsApproval = false
  const redactions: OutputRule[] = []
  for (const { type, params = {} } of list) {
    if (type === 'require_approval' && approvalSchema.safeParse(params).success) needsApproval = true
    else if (type === 'redact_output') redactions.push(ruleOf(params))
    else throw new EvaluationFault('the runtime obliges to something that this gateway cannot do', 'unusable')
  }
  return { needsApproval, redactions }
}

function ruleOf(params: object): OutputRule {
  const parsed = outputRuleSchema.safeParse(params)
  const rule = parsed.success ? compileRule(parsed.data) : undefined
  if (rule !== undefined) return rule
  throw new EvaluationFault('the runtime obliges to a redaction that this gateway cannot do', 'unusable')
}
