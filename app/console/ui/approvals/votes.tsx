// The decision: the votes that it needs, those that were cast, those that are missing, and the result without any.
import type { JSX } from 'preact'
import type { EscalationJson } from '../../../escalations/escalation-json.js'
import { Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'
import { type ApprovalDetail, isUndecided } from './load.js'

export function Votes({ detail }: { readonly detail: ApprovalDetail }): JSX.Element {
  const { escalation, context } = detail
  const { votes } = escalation
  const isOpen = isUndecided(escalation)
  // If the policy gives votes pseudonyms, it is not known whether one is the reader's.
  const isMissing = context.vote_refusal === undefined && votes.length === 0
  return (
    <section class="decision">
      <h3>The decision</h3>
      {votes.length > 0 && (
        <ul class="votes">
          {votes.map(({ reviewer, vote, comment, at }) => (
            <li key={reviewer}>
              <span class={vote === 'approve' ? 'badge good' : 'badge bad'}>
                {vote === 'approve' ? 'approved' : 'rejected'}
              </span>{' '}
              <strong>
                <Untrusted text={reviewer} cut={60} />
              </strong>{' '}
              <span class="label">
                <Time at={at} show="ago" />
              </span>
              {comment !== undefined && (
                <q>
                  <Untrusted text={comment} />
                </q>
              )}
            </li>
          ))}
        </ul>
      )}
      {isOpen && (
        <>
          <p>
            <Untrusted text={missingOf(escalation, isMissing)} />
          </p>
          <Consequences escalation={escalation} />
        </>
      )}
      {escalation.approval_note !== undefined && <p class="hint">{escalation.approval_note}</p>}
    </section>
  )
}

function Consequences({ escalation }: { readonly escalation: EscalationJson }): JSX.Element {
  const { status, expires_at: end, timeout_action: action, enrolment } = escalation
  if (status !== 'pending') {
    return (
      <dl class="consequences">
        <dt>Approve</dt>
        <dd>the emergency is confirmed</dd>
        <dt>Reject</dt>
        <dd>your objection is on record; the call was sent</dd>
        <dt>Nobody</dt>
        <dd>the review stays open</dd>
      </dl>
    )
  }
  return (
    <dl class="consequences">
      <dt>Approved</dt>
      <dd>
        {enrolment === undefined ? (
          'it is sent once, as shown here'
        ) : (
          <>
            this passkey signs votes of <Untrusted text={enrolment.reviewer} cut={60} />
          </>
        )}
      </dd>
      <dt>Rejected</dt>
      <dd>{enrolment === undefined ? 'nothing is sent' : 'it is not registered'}</dd>
      <dt>Nobody decides</dt>
      <dd>
        {action === 'auto_approve' ? <strong>approved</strong> : 'rejected'} at{' '}
        <Time at={end} show="time, or both" />
      </dd>
    </dl>
  )
}

/** The votes that a decision still needs, in words. `isMissing`: the reader may vote and has not. */
function missingOf(
  { tenant, votes, quorum, approval_set_id: set, second_set_id: second }: EscalationJson,
  isMissing: boolean,
) {
  const also = (second === undefined ? '' : ` or of the set ${second}`) + (isMissing ? ' (you are one)' : '')
  const who = (set === undefined ? `reviewer of ${tenant}` : `member of the set ${set}`) + also
  const isOfOne = quorum?.approvals === 1 && quorum.rejections === 1 && quorum.required_roles.length === 0
  if (quorum === undefined || isOfOne) return `The vote of one ${who} decides.`
  const approvals = votes.filter(({ vote }) => vote === 'approve')
  const missing = Math.max(0, quorum.approvals - approvals.length)
  const roles = quorum.required_roles.filter((role) => !approvals.some((one) => one.roles.includes(role)))
  const isSame = missing === 1 && roles.length === 1
  const needed = [
    ...(missing === 0 ? [] : [missing === 1 ? `a ${who}` : `${missing} ${who.replace(/^\w+/, '$&s')}`]),
    ...roles.map((role) => `${isSame ? '' : 'one '}with the role ${role}`),
  ]
  const one = quorum.veto_roles.length === 0 ? '' : `, or one with the role ${quorum.veto_roles.join(' or ')}`
  const rejects =
    quorum.rejections === 1 ? 'One rejection decides' : `${quorum.rejections} rejections decide${one}`
  return `${approvals.length} of ${quorum.approvals} approvals; missing: ${needed.join(', ')}. ${rejects}.`
}
