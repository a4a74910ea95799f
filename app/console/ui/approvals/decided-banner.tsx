// What became of an escalation: decided by whom, sent, and how the call ended.
import type { JSX } from 'preact'
import { useEffect } from 'preact/hooks'
import { useIsLive } from '../kit/page.js'
import { Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'
import type { ApprovalDetail } from './load.js'

/** Its record comes when the call has ended. */
const ASK_AGAIN_MS = 1_000

interface OutcomeProps {
  readonly detail: ApprovalDetail
  readonly onChange: () => Promise<void>
}

export function DecidedBanner({ detail, onChange }: OutcomeProps): JSX.Element {
  const { escalation, context } = detail
  const { status, used, votes, decided_by: decidedBy, decided_at: decidedAt } = escalation
  const isLive = useIsLive()
  const isRunning = used && context.outcome === undefined
  useEffect(() => {
    if (!isLive || !isRunning) return
    const timer = setInterval(() => void onChange(), ASK_AGAIN_MS)
    return () => clearInterval(timer)
  }, [isLive, isRunning, onChange])
  const last = votes.at(-1)
  return (
    <div class={status === 'approved' ? 'banner good' : 'banner bad'} role="status">
      <ol class="steps">
        {stepsOf(detail).map((step) => (
          <li key={step}>{step}</li>
        ))}
      </ol>
      <span>
        {decidedBy === 'votes' && last !== undefined ? (
          <Untrusted text={last.reviewer} cut={60} />
        ) : (
          words[decidedBy ?? 'votes']
        )}{' '}
        decided {decidedAt !== undefined && <Time at={decidedAt} show="ago" />}
      </span>
    </div>
  )
}

const words: Readonly<Record<string, string>> = {
  votes: 'A reviewer',
  expiry: 'The timeout',
  strategy: 'The policy',
}

/** `approved`, `sent`, `ok, 81 ms`. */
function stepsOf({ escalation: { status, used }, context: { outcome } }: ApprovalDetail): string[] {
  if (status === 'rejected') return ['rejected', 'nothing is sent']
  if (!used && outcome === undefined) return ['approved', 'the caller has to repeat the call']
  if (outcome === undefined) return ['approved', 'sent']
  return ['approved', 'sent', `${outcome.error ?? outcome.status}, ${Math.round(outcome.latency_ms)} ms`]
}
