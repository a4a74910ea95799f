// Finds escalation rules under which nobody could ever approve, when the policy is loaded.
import type { ApprovalSet, ConfigConflict, EscalationRule, PolicyFacts, Reviewers } from '@svc/core'

const section = ['security', 'side_effects', 'human_escalation'] as const

export function unsatisfiableRules(rule: EscalationRule, facts: PolicyFacts): ConfigConflict[] {
  const { reviewers, hasOidc } = facts
  if (rule.strategy === 'auto_allow') return []
  if (reviewers === undefined) {
    const then = rule.timeoutAction === 'auto_approve' ? 'approved' : 'rejected'
    const message = `there is no admin section, so nobody can vote: what escalates is ${then} when its time is over`
    return [{ path: section, message, severity: 'warning' }]
  }
  return hasOidc === true ? byUsers(rule, reviewers) : byAdminToken(rule)
}

/** Without OIDC the admin token is the only voter: one person, without roles, in no approval set. */
function byAdminToken({ requiredRoles, minApprovals, approvalSetId }: EscalationRule): ConfigConflict[] {
  const alone = 'without authn.oidc only the admin token votes, which is one person without roles'
  const found: ConfigConflict[] = []
  if (requiredRoles.length > 0) {
    found.push({ path: [...section, 'required_roles'], message: `never met: ${alone}` })
  }
  if (minApprovals > 1) {
    found.push({ path: [...section, 'min_approvals'], message: `never reached: ${alone}` })
  }
  if (approvalSetId !== undefined) {
    found.push({ path: [...section, 'approval_set_id'], message: `nobody of it can vote: ${alone}` })
  }
  return found
}

function byUsers(rule: EscalationRule, { roles = [], approvalSets }: Reviewers): ConfigConflict[] {
  const { approvalSetId, minApprovals } = rule
  if (approvalSetId === undefined) {
    if (roles.length > 0) return []
    const message = 'nobody can vote; name the roles that may decide of escalations'
    return [{ path: ['admin', 'reviewer_roles'], message }]
  }
  const path = [...section, 'approval_set_id']
  const set = Object.hasOwn(approvalSets, approvalSetId) ? approvalSets[approvalSetId] : undefined
  if (set === undefined) {
    const known = Object.keys(approvalSets).join(', ') || 'none'
    const message = `there is no "${approvalSetId}" in admin.approval_sets; known: ${known}`
    return [{ path, message }]
  }
  const max = maxMembers(set)
  if (max >= minApprovals) return []
  const message = `never satisfied: ${minApprovals} have to approve, and the set names ${max}`
  return [{ path, message }]
}

function maxMembers({ users = [], roles = [] }: ApprovalSet): number {
  return roles.length > 0 ? Number.POSITIVE_INFINITY : new Set(users).size
}
