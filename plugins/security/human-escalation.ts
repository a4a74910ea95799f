// Schema of `side_effects.human_escalation`: who decides on escalated calls, and how.

import { defaultEscalation, type EscalationRule } from '@svc/core'
import { defined } from '@svc/core/json'
import { z } from 'zod'

const roles = z.array(z.string().min(1))
const seconds = z.int().min(1).max(604_800)
const votes = z.int().min(1).max(50)

export const humanEscalationSchema = z
  .strictObject({
    approval_strategy: z
      .enum(['auto_allow', 'single_approver', 'human_quorum'])
      .default(defaultEscalation.strategy)
      .describe(
        '`auto_allow`: approved and recorded without a vote. `single_approver`: one vote decides. `human_quorum`: the keys below set the number of votes.',
      ),
    timeout_action: z
      .enum(['auto_approve', 'auto_reject'])
      .default(defaultEscalation.timeoutAction)
      .describe('The decision when reviewers reach none within `ttl_sec`.'),
    ttl_sec: seconds
      .default(defaultEscalation.ttlMs / 1000)
      .describe(
        'Seconds for reviewers to decide, for the caller to use an approval, and for which a rejection holds.',
      ),
    min_approvals: votes.default(defaultEscalation.minApprovals).describe('Approvals required for a quorum.'),
    min_rejections: votes
      .default(defaultEscalation.minRejections)
      .describe('Rejections that reject the call.'),
    required_roles: roles.default([]).describe('Roles that must each be among the approvers.'),
    veto_roles: roles.default([]).describe('Roles of which one rejection rejects the call.'),
    approval_set_id: z
      .string()
      .min(1)
      .optional()
      .describe(
        "Name of the set in `admin.approval_sets` whose members vote, instead of the reviewers of the call's tenant.",
      ),
    remind_after_sec: seconds
      .optional()
      .describe('Seconds after which the notice `escalation.reminder` is sent if nobody has decided.'),
    second_set: z
      .strictObject({
        after_sec: seconds.describe('Seconds after which they may vote.'),
        approval_set_id: z.string().min(1).describe('Name of their set in `admin.approval_sets`.'),
      })
      .optional()
      .describe(
        'People who may vote too, beside those above, if nobody has decided after a time; the notice is `escalation.second_set`.',
      ),
    require: z
      .literal('passkey')
      .optional()
      .describe(
        'Each vote has to be signed by a passkey of the reviewer: one that `admin.passkeys` lists, or that others confirmed.',
      ),
    emergency: z
      .strictObject({
        roles: roles.min(1).describe("Roles whose users may do so, of the caller's token."),
        max_open_reviews: z
          .int()
          .min(1)
          .max(20)
          .default(3)
          .describe('Emergency calls of one person whose review may be open; further ones are refused.'),
      })
      .optional()
      .describe(
        'Lets a caller who sends `x-escalation-emergency: <reason>` run a call at once, before it is approved. It stays in review until reviewers have voted on it.',
      ),
    severity: z
      .enum(['low', 'medium', 'high'])
      .optional()
      .describe('Severity shown to reviewers. Default: `high` for calls with side effects, else `medium`.'),
    show_arguments: z
      .boolean()
      .default(defaultEscalation.showsArguments)
      .describe(
        "Whether reviewers see the call's arguments (the first 2000 characters), which are then stored with the escalation.",
      ),
  })
  .superRefine((section, context) => {
    const { remind_after_sec: remindAfter, second_set: second, ttl_sec: ttl } = section
    const order = [
      { path: ['remind_after_sec'], value: remindAfter, before: second?.after_sec ?? ttl },
      { path: ['second_set', 'after_sec'], value: second?.after_sec, before: ttl },
    ]
    for (const { path, value, before } of order) {
      if (value === undefined || value < before) continue
      const message = `never comes: it must be less than ${before}, when the next step is due`
      context.addIssue({ code: 'custom', path, message })
    }
    if (section.approval_strategy === 'auto_allow') {
      const message = 'applies only if somebody votes; auto_allow ignores it'
      for (const key of ['remind_after_sec', 'second_set', 'require', 'emergency'] as const) {
        if (section[key] !== undefined) context.addIssue({ code: 'custom', path: [key], message })
      }
    }
    if (section.require !== undefined && section.timeout_action === 'auto_approve') {
      const message = 'approves what no passkey has signed; with `require` it must be auto_reject'
      context.addIssue({ code: 'custom', path: ['timeout_action'], message })
    }
    if (section.approval_strategy === 'human_quorum') return
    const quorumKeys = {
      min_approvals: section.min_approvals > 1,
      min_rejections: section.min_rejections > 1,
      required_roles: section.required_roles.length > 0,
      veto_roles: section.veto_roles.length > 0,
    }
    for (const [key, isSet] of Object.entries(quorumKeys)) {
      const message = `applies only to human_quorum; ${section.approval_strategy} ignores it`
      if (isSet) context.addIssue({ code: 'custom', path: [key], message })
    }
  })
  .describe('Who decides on an escalated call, and how.')

interface Section {
  readonly approve_high_risk?: boolean | undefined
  readonly human_escalation?: z.infer<typeof humanEscalationSchema> | undefined
}

/** Undefined if escalation is off. Without `approve_high_risk` it is for rules that escalate. */
export function escalationRule(section: Section | undefined): EscalationRule | undefined {
  const isOn = section?.approve_high_risk === true
  const rule = section?.human_escalation ?? (isOn ? humanEscalationSchema.parse({}) : undefined)
  if (rule === undefined) return undefined
  const { second_set: second, emergency } = rule
  return {
    ...(isOn ? {} : { isForRulingsAlone: true }),
    strategy: rule.approval_strategy,
    timeoutAction: rule.timeout_action,
    ttlMs: rule.ttl_sec * 1000,
    minApprovals: rule.min_approvals,
    minRejections: rule.min_rejections,
    requiredRoles: rule.required_roles,
    vetoRoles: rule.veto_roles,
    ...defined({ approvalSetId: rule.approval_set_id }),
    showsArguments: rule.show_arguments,
    ...(rule.remind_after_sec === undefined ? {} : { remindAfterMs: rule.remind_after_sec * 1000 }),
    ...(second === undefined
      ? {}
      : { secondSet: { afterMs: second.after_sec * 1000, setId: second.approval_set_id } }),
    ...(rule.require === undefined ? {} : { requiresPasskey: true }),
    ...(emergency === undefined
      ? {}
      : { emergency: { roles: emergency.roles, maxOpenReviews: emergency.max_open_reviews } }),
    ...defined({ severity: rule.severity }),
  }
}
