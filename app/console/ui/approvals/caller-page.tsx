// The page for the caller of a waiting call: its state, without a vote.
import type { JSX } from 'preact'
import { useEffect } from 'preact/hooks'
import type { CallerView } from '../../../escalations/escalation-json.js'
import { ErrorBanner, useLoaded } from '../kit/error-banner.js'
import { usePage } from '../kit/page.js'
import { Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'
import { atTimeout, Left } from './waiting-list.js'

const ASK_AGAIN_MS = 3_000

export function CallerPage({ initial }: { readonly initial: CallerView }): JSX.Element {
  const { api, now } = usePage()
  const path = `/api/escalations/${encodeURIComponent(initial.escalation_id)}/state`
  const { data, error, at, reload } = useLoaded(initial, now, () => api.get<CallerView>(path))
  const isPending = data.escalation_status === 'pending'
  useEffect(() => {
    if (!isPending) return
    const timer = setInterval(() => void reload(), ASK_AGAIN_MS)
    return () => clearInterval(timer)
  }, [isPending])
  return (
    <div class="caller-page">
      <h1 class="title">Your call</h1>
      <ErrorBanner error={error} since={at} onRetry={() => void reload()}>
        <section class="panel">
          <p class="mono">
            <Untrusted text={data.reference} cut={200} />
          </p>
          <p role="status">{textOf(data)}</p>
          <p class="label">
            asked <Time at={data.created_at} show="day and time" />
            {isPending && (
              <>
                {' · '}
                <Left until={data.expires_at} then={`, then ${atTimeout(data)}`} />
              </>
            )}
          </p>
        </section>
      </ErrorBanner>
      <p class="hint">Others decide about it: nobody votes on a call of their own.</p>
    </div>
  )
}

function textOf({ escalation_status: status, used, decided_by: decidedBy }: CallerView): string {
  if (status === 'pending') return 'It waits for a decision.'
  if (status === 'rejected') {
    return decidedBy === 'expiry' ? 'Nobody decided in time, so it is rejected.' : 'It is rejected.'
  }
  return used ? 'It is approved, and was sent.' : 'It is approved: let your agent repeat the same call.'
}
