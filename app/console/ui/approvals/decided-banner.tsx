// The end of an escalation: who decided it, whether the call was sent, and how it ended.
import type { JSX } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { useNow } from '../kit/page.js'
import { countdown, Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'
import type { ApprovalDetail } from './load.js'

/** Its record comes when the call has ended. */
const ASK_AGAIN_MS = 1_000
/** Requests for the outcome of a call, which may have no record that is found. */
const MAX_ASKED = 300

interface OutcomeProps {
  readonly detail: ApprovalDetail
  readonly onChange: () => Promise<void>
}

export function DecidedBanner({ detail, onChange }: OutcomeProps): JSX.Element {
  const { escalation, context } = detail
  const isRunning = escalation.used && context.outcome === undefined
  const asked = useRef(0)
  useEffect(() => {
    if (!isRunning) return
    const timer = setInterval(() => {
      asked.current++
      if (asked.current <= MAX_ASKED) void onChange()
    }, ASK_AGAIN_MS)
    return () => clearInterval(timer)
  }, [isRunning, onChange])
  const now = useNow()
  return (
    <div class={`banner ${toneOf(detail)}`} role="status">
      <ol class="steps">
        {stepsOf(detail, now).map((step) => (
          <li key={step}>{step}</li>
        ))}
      </ol>
      <DecidedBy escalation={escalation} />
    </div>
  )
}

type Decision = Pick<ApprovalDetail['escalation'], 'votes' | 'decided_by' | 'decided_at'>

export function DecidedBy({ escalation }: { readonly escalation: Decision }): JSX.Element {
  const { votes, decided_by: decidedBy, decided_at: decidedAt } = escalation
  const last = votes.at(-1)
  return (
    <span>
      {decidedBy === 'votes' && last !== undefined ? (
        <Untrusted text={last.reviewer} cut={60} />
      ) : (
        words[decidedBy ?? 'votes']
      )}{' '}
      decided {decidedAt !== undefined && <Time at={decidedAt} show="ago" />}
    </span>
  )
}

const words = {
  votes: 'A reviewer',
  expiry: 'Nobody voted in time; the timeout',
  strategy: 'The policy',
  emergency: 'The caller, in an emergency,',
} as const

function toneOf({ escalation: { status, emergency }, context: { outcome } }: ApprovalDetail): string {
  if (status === 'rejected' || emergency?.review === 'objected') return 'bad'
  return emergency?.review === 'open' || outcome?.status === 'error' ? 'warn' : 'good'
}

/** `approved`, `sent`, `ok, 81 ms`. */
function stepsOf({ escalation, context: { outcome } }: ApprovalDetail, now: number): string[] {
  const { status, used, decided_by: decidedBy, expires_at: end, enrolment } = escalation
  if (enrolment !== undefined) return [enrolment.revoked_at === undefined ? status : 'revoked']
  if (status === 'rejected') return ['rejected', 'nothing is sent']
  const first = decidedBy === 'emergency' ? 'not approved' : 'approved'
  if (outcome !== undefined) {
    const sent = outcome.sent === 'unknown' ? 'may have been sent' : 'sent'
    return [first, sent, `${outcome.error ?? outcome.status}, ${Math.round(outcome.latency_ms)} ms`]
  }
  if (used) return [first, 'sent']
  const left = Date.parse(end) - now
  return [
    first,
    left > 0 ? `${countdown(left, true)} left to repeat the call` : 'not sent: nobody repeated the call',
  ]
}
