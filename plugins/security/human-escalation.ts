// `side_effects.human_escalation` (contract.md §2.12, decisions.md §6): how people decide of what escalates.
import type { EscalationRule } from '@svc/core'
import { z } from 'zod'

const roles = z.array(z.string().min(1))
const votes = z.int().min(1).max(50)

export const humanEscalationSchema = z
  .strictObject({
    approval_strategy: z
      .enum(['auto_allow', 'single_approver', 'human_quorum'])
      .default('human_quorum')
      .describe(
        '`auto_allow` approves at once and records it; `single_approver`: one vote decides; `human_quorum`: as many as the keys below say.',
      ),
    timeout_action: z
      .enum(['auto_approve', 'auto_reject'])
      .default('auto_reject')
      .describe('What decides when nobody has in `ttl_sec`.'),
    ttl_sec: z
      .int()
      .min(1)
      .max(604_800)
      .default(900)
      .describe(
        'Seconds that people have to decide, and then the caller to use the approval; as long a rejection stands.',
      ),
    min_approvals: votes.default(1).describe('Approvals that a quorum needs.'),
    min_rejections: votes.default(1).describe('Rejections that decide against the call.'),
    required_roles: roles.default([]).describe('Roles that must all be present among the approvals.'),
    veto_roles: roles.default([]).describe('Roles whose rejection decides by itself.'),
    approval_set_id: z
      .string()
      .min(1)
      .optional()
      .describe(
        "The set of `admin.approval_sets` that votes, in place of the reviewers of the call's tenant.",
      ),
    severity: z
      .enum(['low', 'medium', 'high'])
      .optional()
      .describe('As reviewers see it; absent: `high` for side-effecting calls, else `medium`.'),
    show_arguments: z
      .boolean()
      .default(true)
      .describe(
        "Whether reviewers see the call's arguments (the first 2000 characters), which are kept for it.",
      ),
  })
  .superRefine((given, context) => {
    if (given.approval_strategy === 'human_quorum') return
    const isGiven = {
      min_approvals: given.min_approvals > 1,
      min_rejections: given.min_rejections > 1,
      required_roles: given.required_roles.length > 0,
      veto_roles: given.veto_roles.length > 0,
    }
    for (const [key, isThere] of Object.entries(isGiven)) {
      const message = `is for human_quorum; ${given.approval_strategy} would pass it over`
      if (isThere) context.addIssue({ code: 'custom', path: [key], message })
    }
  })
  .describe('How people decide of a call that escalates.')

interface Section {
  readonly approve_high_risk?: boolean | undefined
  readonly human_escalation?: z.infer<typeof humanEscalationSchema> | undefined
}

/** Undefined where nothing escalates. */
export function escalationRule(section: Section | undefined): EscalationRule | undefined {
  if (section?.approve_high_risk !== true) return undefined
  const rule = section.human_escalation ?? humanEscalationSchema.parse({})
  return {
    strategy: rule.approval_strategy,
    timeoutAction: rule.timeout_action,
    ttlMs: rule.ttl_sec * 1000,
    minApprovals: rule.min_approvals,
    minRejections: rule.min_rejections,
    requiredRoles: rule.required_roles,
    vetoRoles: rule.veto_roles,
    ...(rule.approval_set_id === undefined ? {} : { approvalSetId: rule.approval_set_id }),
    showsArguments: rule.show_arguments,
    ...(rule.severity === undefined ? {} : { severity: rule.severity }),
  }
}
