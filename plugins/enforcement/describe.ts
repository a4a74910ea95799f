// Describes the policy's rule for `svc policy explain`.
import type { EscalationRule } from '@svc/core'
import type { EnforcementConfig } from './config.js'

export function describeRule({ mode, deny_on }: EnforcementConfig): string {
  const denies =
    deny_on === undefined
      ? 'every finding denies (deny_on is absent)'
      : deny_on.length === 0
        ? 'no finding denies (deny_on is empty)'
        : `findings deny for ${deny_on.join(', ')}`
  return mode === 'observe'
    ? `mode observe: nothing is denied; otherwise ${denies}`
    : `mode enforce: ${denies}`
}

export function describeEscalation({ escalate_on = [] }: EnforcementConfig, rule: EscalationRule): string {
  const names = escalate_on.length === 0 ? 'what a runtime escalates' : escalate_on.join(', ')
  return `escalates instead for ${names}: ${describeStrategy(rule)}`
}

export function describeStrategy(rule: EscalationRule): string {
  const { strategy, minApprovals, minRejections, requiredRoles, vetoRoles, approvalSetId } = rule
  if (strategy === 'auto_allow') return 'auto_allow, approved at once and recorded'
  const after = rule.timeoutAction === 'auto_approve' ? 'approved' : 'rejected'
  const time = `undecided after ${rule.ttlMs / 1000} s it is ${after}`
  const who =
    approvalSetId === undefined ? 'the reviewers of its tenant' : `the approval set "${approvalSetId}"`
  if (strategy === 'single_approver') return `single_approver, one vote of ${who} decides; ${time}`
  const roles = requiredRoles.length === 0 ? '' : `, among them the roles ${requiredRoles.join(', ')}`
  const veto = vetoRoles.length === 0 ? '' : `, or one of the roles ${vetoRoles.join(', ')}`
  return `human_quorum of ${who}, ${minApprovals} to approve${roles}, ${minRejections} to reject${veto}; ${time}`
}
