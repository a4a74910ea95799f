// The last 24 hours: calls, denials, latency, limits, stores and blocks.
import type { JSX } from 'preact'
import { useEffect } from 'preact/hooks'
import type { ActivityJson } from '../../activity-operation.js'
import type { HealthJson } from '../../health-operation.js'
import { BarChart, LineChart, type Series, Share } from '../kit/charts.js'
import { ErrorBanner, useLoaded } from '../kit/error-banner.js'
import { useNow, usePage } from '../kit/page.js'
import { inWords, Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'
import type { ViewProps } from '../kit/view.js'
import { loadOverview, type OverviewData } from './load.js'

const REFRESH_MS = 10_000

type Bucket = ActivityJson['buckets'][number]

const outcomes: readonly Series<Bucket>[] = [
  { name: 'sent', tone: 'accent', value: ({ allowed, failed }) => allowed - failed },
  { name: 'failed', tone: 'warn', value: ({ failed }) => failed },
  { name: 'denied', tone: 'bad', value: ({ denied }) => denied },
]

const latencies: readonly Series<Bucket>[] = [
  { name: '99th percentile', tone: 'soft', value: ({ p99_ms }) => p99_ms },
  { name: 'median', tone: 'accent', value: ({ p50_ms }) => p50_ms },
]

export function Overview({ data: initial }: ViewProps<OverviewData>): JSX.Element {
  const { api, now } = usePage()
  const { data, error, at, reload } = useLoaded(initial, now, () => loadOverview(api))
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) void reload()
    }, REFRESH_MS)
    return () => clearInterval(timer)
  }, [reload])
  const { activity, health, blocks } = data
  const buckets = sinceFirstCall(activity.buckets)
  return (
    <section>
      <h1 class="title">The last 24 hours</h1>
      <ErrorBanner error={error} since={at} onRetry={() => void reload()}>
        <div class="overview">
          <Figures activity={activity} />
          {activity.read_from !== undefined && (
            <p class="banner warn">
              The log is so long that calls before <Time at={activity.read_from} show="day and time" /> are
              not counted.
            </p>
          )}
          <p class="hint">
            As the gateway says: a call is proven on its own page. Times leave out calls about which people
            were asked.
          </p>
          <div class="columns">
            <div class="panel">
              <BarChart title="Calls" points={buckets} series={outcomes} format={whole} />
            </div>
            <div class="panel">
              <LineChart title="Time of a call" points={buckets} series={latencies} format={inMilliseconds} />
            </div>
            <Reasons activity={activity} />
            {health !== undefined && <Parts health={health} />}
            {health !== undefined && <Limits limits={health.limits} />}
            {blocks !== undefined && <Blocks blocks={blocks} />}
          </div>
        </div>
      </ErrorBanner>
    </section>
  )
}

/** Charts begin with the first call, so that the hours before a gateway was used show nothing. */
function sinceFirstCall(buckets: readonly Bucket[]): readonly Bucket[] {
  const first = buckets.findIndex(({ allowed, denied }) => allowed + denied > 0)
  return first < 0 ? [] : buckets.slice(first)
}

function Figures({ activity }: { readonly activity: ActivityJson }): JSX.Element {
  const { allowed, denied, failed, latency_ms: latency, waits_ms: waits } = activity
  const calls = allowed + denied
  const share = (count: number) => (count === 0 ? '' : percent(count / calls))
  const rows = [
    ['Calls', whole(calls), ''],
    ['Denied', whole(denied), share(denied)],
    ['Failed at the server', whole(failed), share(failed)],
    ['Median', latency.max === 0 ? '–' : inMilliseconds(latency.p50), ''],
    ['99th percentile', latency.max === 0 ? '–' : inMilliseconds(latency.p99), ''],
    ...(waits.count === 0
      ? []
      : [['Median wait for people', inWords(waits.p50), `${whole(waits.count)} decided`]]),
  ]
  return (
    <dl class="panel figures">
      {rows.map(([name, value, note]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            {value} {note !== '' && <small>{note}</small>}
          </dd>
        </div>
      ))}
    </dl>
  )
}

function Reasons({ activity }: { readonly activity: ActivityJson }): JSX.Element {
  const reasons = activity.reasons.filter(({ effect }) => effect === 'deny' || effect === 'escalate')
  return (
    <section class="panel">
      <h2>Why calls did not pass</h2>
      {reasons.length === 0 ? (
        <p class="none">
          {activity.allowed + activity.denied === 0
            ? 'Nobody called in the last 24 hours.'
            : 'No call was denied, and none waited.'}
        </p>
      ) : (
        <ul class="bars">
          {reasons.slice(0, 10).map(({ reason, effect, calls }) => (
            <li key={`${reason} ${effect}`}>
              <span class="mono">
                <Untrusted text={reason} cut={80} />
              </span>
              <span class="value">
                {whole(calls)} {effect === 'escalate' ? 'asked a person' : 'denied'}
              </span>
              <Share
                of={calls / Math.max(1, activity.denied)}
                tone={effect === 'escalate' ? 'warn' : 'bad'}
              />
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

const states = { ok: ['good', 'ok'], warning: ['warn', 'warning'], down: ['bad', 'down'] } as const

function Parts({ health }: { readonly health: HealthJson }): JSX.Element {
  return (
    <section class="panel">
      <h2>Stages and their stores</h2>
      <ul class="bars">
        {health.parts.map(({ name, state, reason }) => (
          <li key={name}>
            <span class="mono">
              <Untrusted text={name} cut={60} />
            </span>
            <span class={states[state][0]}>
              <span class={`dot ${states[state][0]}`} aria-hidden="true" /> {states[state][1]}
            </span>
            {reason !== undefined && (
              <span class="note">
                <Untrusted text={reason} cut={200} />
              </span>
            )}
          </li>
        ))}
      </ul>
    </section>
  )
}

function Limits({ limits }: { readonly limits: HealthJson['limits'] }): JSX.Element {
  return (
    <section class="panel">
      <h2>Limits per day in use</h2>
      {limits.length === 0 ? (
        <p class="none">No call was counted against a limit per day since this gateway started.</p>
      ) : (
        <ul class="bars">
          {limits.slice(0, 10).map(({ tenant, key, used, limit }) => (
            <li key={`${tenant} ${key}`}>
              <span class="mono">
                <Untrusted text={`${tenant} ${key}`} cut={120} />
              </span>
              <span class="value">
                {whole(used)} of {whole(limit)}
              </span>
              <Share of={used / Math.max(1, limit)} tone={used >= limit ? 'bad' : 'accent'} />
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

function Blocks({ blocks }: { readonly blocks: NonNullable<OverviewData['blocks']> }): JSX.Element {
  const now = useNow()
  return (
    <section class="panel">
      <h2>Blocks in force</h2>
      {blocks.length === 0 ? (
        <p class="none">Nobody and nothing is blocked.</p>
      ) : (
        <ul class="bars">
          {blocks.map(({ id, kind, pattern, reason, by, until }) => (
            <li key={id}>
              <span>
                {kind}{' '}
                <span class="mono">
                  <Untrusted text={pattern} cut={80} />
                </span>
              </span>
              <span class="value">
                {until === null
                  ? 'until it is lifted'
                  : `${inWords(Math.max(0, Date.parse(until) - now))} left`}
              </span>
              <span class="note">
                <Untrusted text={reason} cut={200} />, by <Untrusted text={by} cut={60} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

function whole(value: number): string {
  return value.toLocaleString('en')
}

function percent(share: number): string {
  return `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`
}

function inMilliseconds(value: number): string {
  return value >= 1000 ? `${(value / 1000).toPrecision(3)} s` : `${Number(value.toPrecision(3))} ms`
}
