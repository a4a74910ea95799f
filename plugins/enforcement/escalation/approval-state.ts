// The state of an escalation for a call: whether its approval covers the call, and may still be used.
import type { EscalationRule, Finding } from '@svc/core'
import { canonicalize, sha256Hex } from '@svc/core/json'
import type { StoredEscalation } from './stored-escalation.js'

const WITHOUT_VOTES = 'without votes: '

type ApprovalState = 'pending' | 'rejected' | 'usable' | 'used_by_key' | 'used' | 'lapsed'

/** The state of the escalation at `now` for its call, whose idempotency key has this hash. */
export function approvalStateOf(value: StoredEscalation, now: number, key: string | null): ApprovalState {
  if (value.status !== 'approved') return value.status
  if (value.use !== undefined) return key !== null && value.use.key === key ? 'used_by_key' : 'used'
  return now < value.expiresAt ? 'usable' : 'lapsed'
}

/** Whether this escalation applies to a call without an escalation id, so that no new one is opened. */
export function appliesTo(
  value: StoredEscalation,
  state: ApprovalState,
  now: number,
  wanted: readonly string[],
): boolean {
  switch (state) {
    case 'pending':
      return true
    case 'usable':
    case 'used_by_key':
      return covers(value, wanted)
    case 'rejected':
      // After a rejection by votes reviewers are not asked again for a while; after a timeout they are.
      return value.decidedBy === 'votes' && now < value.expiresAt
    default:
      return false
  }
}

/** The part of an escalation that an approval of the finding covers: its reason, and the text of its rule. */
export function coverageOf({ reason, approval }: Finding): string {
  return approval === undefined ? reason : `${reason}#${approval.digest}`
}

/**
 * The rule of the decision: an approval by fewer people, or without their passkeys, does not cover a call that needs them now;
 * an approval without votes does not cover a call that is decided otherwise now if nobody votes.
 */
export function coverageOfRule(rule: EscalationRule): string[] {
  const { strategy, timeoutAction, minApprovals, minRejections, requiredRoles, vetoRoles } = rule
  const { approvalSetId = null, requiresPasskey = false } = rule
  const people = { approvalSetId, minApprovals, minRejections, requiredRoles, vetoRoles, requiresPasskey }
  return [
    `decided by ${sha256Hex(canonicalize({ strategy, ...people }))}`,
    `${WITHOUT_VOTES}${timeoutAction}`,
  ]
}

/** Whether the reviewers saw all of these findings, by `coverageOf`, under this rule. */
export function covers(value: StoredEscalation, wanted: readonly string[]): boolean {
  const seen = value.covers ?? value.reasons
  const isVoted = value.decidedBy === 'votes'
  return wanted.every((one) => seen.includes(one) || (isVoted && one.startsWith(WITHOUT_VOTES)))
}
