// The refusals of calls that escalate.
import { type Denied, denialOf, denied, type FindingList } from '@svc/core'
import { visibleInLine } from '@svc/core/json'
import type { StoredEscalation } from './stored-escalation.js'

/** A model reads the message: which call waits for which reviewers, and how the caller goes on. */
export function pending(value: StoredEscalation, findings: FindingList): Denied {
  const { id, status, server, tool } = value
  return denied(
    'ESCALATION_PENDING',
    [
      `A person has to decide about ${server}/${tool}, which was not sent: ${describeFindings(findings)}.`,
      `It needs ${describeApprovals(value)}.`,
      `Escalation ${id}: tell the user about it. Once it is approved, repeat the same call with the same arguments.`,
    ].join(' '),
    { denial: denialOf(findings), escalation: { id, status } },
  )
}

function describeApprovals({ rule, tenant, votes }: StoredEscalation): string {
  const { strategy, minApprovals, requiredRoles, approvalSetId } = rule
  const needed = strategy === 'human_quorum' ? minApprovals : 1
  const one = approvalSetId === undefined ? `a reviewer of ${tenant}` : `a member of "${approvalSetId}"`
  const all = approvalSetId === undefined ? `reviewers of ${tenant}` : `members of "${approvalSetId}"`
  const given = votes.filter(({ vote }) => vote === 'approve').length
  const roles = requiredRoles.length === 0 ? '' : `, among them the roles ${requiredRoles.join(', ')}`
  const count = given === 0 ? '' : ` (${given} given)`
  return `${needed === 1 ? `the approval of ${one}` : `${needed} approvals by ${all}`}${roles}${count}`
}

/** The call is approved, but the person at the client has declined the elicitation. */
export function declined({ id, status, server, tool }: StoredEscalation, findings: FindingList): Denied {
  return denied(
    'ESCALATION_PENDING',
    `${server}/${tool} is approved, and was not sent: the person at the client declined it. Only if they want it, repeat the same call.`,
    { denial: denialOf(findings), escalation: { id, status } },
  )
}

export function rejected(value: StoredEscalation, findings: FindingList): Denied {
  const { id, status } = value
  const text = rejectionText(value, describeFindings(findings))
  return denied('ESCALATION_REJECTED', text, { denial: denialOf(findings), escalation: { id, status } })
}

function rejectionText({ decidedBy, server, tool, votes }: StoredEscalation, why: string): string {
  switch (decidedBy) {
    case 'expiry':
      return `Nobody approved ${server}/${tool} in time, so it was not sent: ${why}. To ask again, repeat the same call.`
    case 'emergency':
      return `This call of ${server}/${tool} was not sent, as its caller ran it as an emergency by a repetition with x-escalation-emergency. Do not repeat the call.`
    default:
      return `A person decided against ${server}/${tool}, so it was not sent: ${why}.${describeRejections(votes)} Do not repeat the call.`
  }
}

/** Who rejected the call, and the comments, which a model reads as the text of a person. */
function describeRejections(votes: StoredEscalation['votes']): string {
  const rejections = votes
    .filter(({ vote }) => vote === 'reject')
    .map(({ reviewer, comment }) =>
      visibleInLine(comment === undefined ? reviewer : `${reviewer} (${JSON.stringify(comment)})`),
    )
  return rejections.length === 0 ? '' : ` Rejected by ${rejections.join(' and ')}.`
}

export function tooMany(findings: FindingList, isEmergency: boolean): Denied {
  const what = isEmergency
    ? 'emergency calls of yours wait for their review'
    : 'calls of yours wait for a person to decide'
  return denied('RATE_LIMITED', `Too many ${what}: this one was not sent. Repeat it once one is decided.`, {
    denial: denialOf(findings),
    headers: { 'retry-after': '60' },
  })
}

export function emergencyRefused(findings: FindingList): Denied {
  const message =
    'x-escalation-emergency: no role of yours may run a call before it is approved. Without it the call waits for a person.'
  return denied('TOOL_NOT_ALLOWED', message, { denial: denialOf(findings) })
}

export function describeFindings(findings: FindingList): string {
  return findings
    .map(({ reason, detail }) => (detail === undefined ? reason : `${reason}, ${detail}`))
    .join('; ')
}
