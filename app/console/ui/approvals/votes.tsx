// Who has voted, and who is missing.
import type { JSX } from 'preact'
import type { EscalationJson } from '../../../escalations/escalation-json.js'
import { Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'

export function Votes({ escalation }: { readonly escalation: EscalationJson }): JSX.Element {
  const { votes, status } = escalation
  return (
    <section>
      <h3>Votes</h3>
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
      {status === 'pending' && (
        <p class="missing">
          <Untrusted text={missingOf(escalation)} />
        </p>
      )}
      {escalation.approval_note !== undefined && <p class="hint">{escalation.approval_note}</p>}
    </section>
  )
}

/** What a decision still needs, in words. */
function missingOf({ tenant, votes, quorum, approval_set_id: set }: EscalationJson): string {
  const who = set === undefined ? `reviewer of ${tenant}` : `member of the set ${set}`
  if (quorum === undefined) return `Missing: the vote of a ${who}, which decides.`
  const approvals = votes.filter(({ vote }) => vote === 'approve')
  const missing = Math.max(0, quorum.approvals - approvals.length)
  const roles = quorum.required_roles.filter((role) => !approvals.some((one) => one.roles.includes(role)))
  const needed = [
    ...(missing === 0 ? [] : [missing === 1 ? `a ${who}` : `${missing} ${who.replace(/^\w+/, '$&s')}`]),
    ...roles.map((role) => `a ${role}`),
  ]
  const rejects = quorum.rejections === 1 ? 'One rejection decides' : `${quorum.rejections} rejections decide`
  const veto = quorum.veto_roles.length === 0 ? '' : `; a ${quorum.veto_roles.join(' or ')} may veto`
  return `${approvals.length} of ${quorum.approvals} approvals. Missing: ${needed.join(', ')}. ${rejects}${veto}.`
}
