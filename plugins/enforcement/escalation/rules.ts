// How votes and time decide an escalation. Pure functions of the escalation, the vote and the time.
import { VoteError } from '@svc/core'
import type { StoredEscalation, StoredRule, StoredVote } from './stored-escalation.js'

type Decision = 'approved' | 'rejected'

/** What the votes decide; undefined while they do not. A veto is checked first: no approval outweighs it. */
function tally(rule: StoredRule, votes: readonly StoredVote[]): Decision | undefined {
  const [first] = votes
  if (rule.strategy === 'single_approver') {
    return first === undefined ? undefined : first.vote === 'approve' ? 'approved' : 'rejected'
  }
  const approvals = votes.filter(({ vote }) => vote === 'approve')
  const rejections = votes.filter(({ vote }) => vote === 'reject')
  const hasVeto = rejections.some(({ roles }) => rule.vetoRoles.some((role) => roles.includes(role)))
  if (hasVeto || rejections.length >= rule.minRejections) return 'rejected'
  const isRoleThere = (role: string) => approvals.some(({ roles }) => roles.includes(role))
  if (approvals.length >= rule.minApprovals && rule.requiredRoles.every(isRoleThere)) return 'approved'
  return undefined
}

/** The escalation with one more vote. @throws {VoteError} `DECIDED` or `ALREADY_VOTED` */
export function withVote(value: StoredEscalation, vote: StoredVote): StoredEscalation {
  if (value.status !== 'pending') throw new VoteError('DECIDED', `It is ${value.status} already.`)
  if (value.votes.some(({ person }) => person.some((name) => vote.person.includes(name)))) {
    throw new VoteError('ALREADY_VOTED', 'Each person has one vote, and yours is cast.')
  }
  const votes = [...value.votes, vote]
  const decision = tally(value.rule, votes)
  if (decision === undefined) return { ...value, votes }
  return { ...decided(value, decision, vote.at), votes, decidedBy: 'votes' }
}

/** The escalation at `now`: decided by its `timeoutAction` where it is still pending after its time. */
export function expiredAt(value: StoredEscalation, now: number): StoredEscalation {
  if (value.status !== 'pending' || now < value.expiresAt) return value
  const decision = value.rule.timeoutAction === 'auto_approve' ? 'approved' : 'rejected'
  // As of its expiry, whenever that is noticed, so that every gateway computes the same.
  return { ...decided(value, decision, value.expiresAt), decidedBy: 'expiry' }
}

/** A decision holds for another `ttlMs`: an approval until it lapses, a rejection until the call may ask again. */
export function decided(value: StoredEscalation, status: Decision, at: number): StoredEscalation {
  return { ...value, status, decidedAt: at, expiresAt: at + value.rule.ttlMs }
}

type ApprovalState = 'pending' | 'rejected' | 'usable' | 'used_by_key' | 'used' | 'lapsed'

/** What the escalation means at `now` for its call, which carries an idempotency key of this hash. */
export function approvalStateOf(value: StoredEscalation, now: number, key: string | null): ApprovalState {
  if (value.status !== 'approved') return value.status
  if (value.use !== undefined) return key !== null && value.use.key === key ? 'used_by_key' : 'used'
  return now < value.expiresAt ? 'usable' : 'lapsed'
}

/** Whether a call without an escalation's id is answered by this escalation, and not by a new one. */
export function appliesTo(
  value: StoredEscalation,
  state: ApprovalState,
  now: number,
  reasons: readonly string[],
): boolean {
  switch (state) {
    case 'pending':
      return true
    case 'usable':
    case 'used_by_key':
      return covers(value, reasons)
    case 'rejected':
      // Reviewers who rejected are not asked again for a while; where nobody voted, they are.
      return value.decidedBy === 'votes' && now < value.expiresAt
    default:
      return false
  }
}

/** Whether the reviewers saw all of these reasons. */
export function covers(value: StoredEscalation, reasons: readonly string[]): boolean {
  return reasons.every((reason) => value.reasons.includes(reason))
}
