// When votes and time decide an escalation (decisions.md §6). Pure: time and votes come in, the case as it then is
// comes out.
import { VoteError } from '@svc/core'
import type { Case, CaseRule, CaseVote } from './case.js'

type Decision = 'approved' | 'rejected'

/** What the votes decide; undefined while they do not. A veto is looked for first: no approval outweighs it. */
function tally(rule: CaseRule, votes: readonly CaseVote[]): Decision | undefined {
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

/** The case with one more vote. @throws {VoteError} `DECIDED` or `ALREADY_VOTED` */
export function withVote(value: Case, vote: CaseVote): Case {
  if (value.status !== 'pending') throw new VoteError('DECIDED', `It is ${value.status} already.`)
  if (value.votes.some(({ person }) => person.some((name) => vote.person.includes(name)))) {
    throw new VoteError('ALREADY_VOTED', 'Each person has one vote, and yours is cast.')
  }
  const votes = [...value.votes, vote]
  const decision = tally(value.rule, votes)
  if (decision === undefined) return { ...value, votes }
  return { ...decided(value, decision, vote.at), votes, decidedBy: 'votes' }
}

/** The case as it is at `now`: where nobody decided in time, the time has. */
export function atTime(value: Case, now: number): Case {
  if (value.status !== 'pending' || now < value.expiresAt) return value
  const decision = value.rule.timeoutAction === 'auto_approve' ? 'approved' : 'rejected'
  // At the moment its time was over, whenever that is noticed: every gateway comes to the same.
  return { ...decided(value, decision, value.expiresAt), decidedBy: 'expiry' }
}

/** What is decided has as long again: an approval to be used, a rejection to stand. */
export function decided(value: Case, status: Decision, at: number): Case {
  return { ...value, status, decidedAt: at, expiresAt: at + value.rule.ttlMs }
}

export type Standing = 'pending' | 'rejected' | 'usable' | 'used_by_key' | 'used' | 'lapsed'

/** What the case means for its call at `now`, which carries an idempotency key of this hash. */
export function standingOf(value: Case, now: number, key: string | null): Standing {
  if (value.status !== 'approved') return value.status
  if (value.use !== undefined) return key !== null && value.use.key === key ? 'used_by_key' : 'used'
  return now < value.expiresAt ? 'usable' : 'lapsed'
}

/** Whether a call without an escalation's id is answered by this case, rather than by a new one. */
export function holdsFor(value: Case, standing: Standing, now: number, reasons: readonly string[]): boolean {
  switch (standing) {
    case 'pending':
      return true
    case 'usable':
    case 'used_by_key':
      return covers(value, reasons)
    case 'rejected':
      // People decided, and are not asked again and again; where nobody did, they are.
      return value.decidedBy === 'votes' && now < value.expiresAt
    default:
      return false
  }
}

/** Whoever approved knew of these reasons. */
export function covers(value: Case, reasons: readonly string[]): boolean {
  return reasons.every((reason) => value.reasons.includes(reason))
}
