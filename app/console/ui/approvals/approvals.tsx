// The escalations that wait, with the one that is selected.
import type { JSX } from 'preact'
import type { EscalationJson } from '../../../escalations/escalation-json.js'
import { ErrorBanner, useLoaded } from '../kit/error-banner.js'
import { useNow, usePage } from '../kit/page.js'
import { countdown } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'
import type { ViewProps } from '../kit/view.js'
import { type ApprovalsData, loadApprovals } from './load.js'

export function Approvals({ data: initial, location }: ViewProps<ApprovalsData>): JSX.Element {
  const { api, now } = usePage()
  const { data, error, at, reload } = useLoaded(initial, now, () => loadApprovals(api, location))
  return (
    <section class="approvals">
      <h1 class="title">Approvals</h1>
      <ErrorBanner error={error} since={at} onRetry={() => void reload()}>
        {data.waiting.length === 0 ? (
          <p class="empty">Nothing waits.</p>
        ) : (
          <ul class="waiting">
            {data.waiting.map((one) => (
              <Row key={one.id} escalation={one} />
            ))}
          </ul>
        )}
      </ErrorBanner>
    </section>
  )
}

function Row({ escalation }: { readonly escalation: EscalationJson }): JSX.Element {
  const left = Date.parse(escalation.expires_at) - useNow()
  return (
    <li>
      <a href={`/console/approvals/${escalation.id}`}>
        <span class="mono">
          <Untrusted text={escalation.tool} cut={60} />
        </span>
        <Untrusted text={escalation.principal} cut={60} />
        <span class={left < 120_000 ? 'left warn' : 'left'}>{countdown(left)} left</span>
      </a>
    </li>
  )
}
