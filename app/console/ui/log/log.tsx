// The state of the log above, and below its records or the one that the path names.
import type { ComponentChildren, JSX } from 'preact'
import { useEffect } from 'preact/hooks'
import type { LogJson, RecordJson } from '../../../log/log-json.js'
import { Copy } from '../kit/copy.js'
import { ErrorBanner, useLoaded } from '../kit/error-banner.js'
import { useNow, usePage } from '../kit/page.js'
import { inWords, Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'
import type { ViewProps } from '../kit/view.js'
import { RecordSource, useVerification } from '../verify/use-verification.js'
import { VerifyPanel } from '../verify/verify-panel.js'
import { EvidenceForm } from './evidence.js'
import { type LogData, loadLog } from './load.js'
import { RecordTable } from './record-table.js'
import { RecordSentence } from './record-text.js'

const EVERY_MS = 5000

export function Log({ data: initial, location }: ViewProps<LogData>): JSX.Element {
  const { api, now } = usePage()
  const { data, error, at, reload } = useLoaded(initial, now, () => loadLog(api, location))
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') void reload()
    }, EVERY_MS)
    return () => clearInterval(timer)
  }, [reload])
  const { log, records, shown } = data
  return (
    <section class="log">
      <h1 class="title">{shown === undefined ? 'Log' : `Record at leaf ${shown.leaf}`}</h1>
      <ErrorBanner error={error} since={at} onRetry={() => void reload()}>
        {shown === undefined ? (
          <>
            <LogState log={log} />
            {records === undefined ? (
              <p class="empty">Records are for reviewers, auditors and operators.</p>
            ) : (
              <>
                <EvidenceForm query={location.query} />
                <RecordTable records={records} query={location.query} />
              </>
            )}
          </>
        ) : (
          <>
            <p>
              <a href="/console/log">← All records</a>
            </p>
            <Shown key={shown.leaf} {...shown} />
          </>
        )}
      </ErrorBanner>
    </section>
  )
}

/** A line, so that the first records are in sight; all of it once something is wrong. */
function LogState({ log }: Pick<LogData, 'log'>): JSX.Element {
  const { days, head, sealed_at: sealedAt, writing } = log
  const gaps = days.filter(({ state }) => state === 'gap').length
  const isWell = gaps === 0 && writing.writable && writing.warning === undefined
  return (
    <details class="log-state" open={!isWell}>
      <summary>
        <span class={`badge ${isWell ? 'good' : writing.writable && gaps === 0 ? 'warn' : 'bad'}`}>
          {writing.writable ? 'writable' : 'NOT WRITABLE'}
        </span>{' '}
        {head === null
          ? 'no leaf yet'
          : `${head.size.toLocaleString('en')} ${head.size === 1 ? 'leaf' : 'leaves'}`}
        {sealedAt !== null && (
          <>
            , sealed <Time at={sealedAt} show="ago" />
          </>
        )}
        , {days.length} {days.length === 1 ? 'day' : 'days'}
        {gaps > 0 && `, ${gaps} with a gap`}
      </summary>
      <DayStrip days={days} />
      <Heads log={log} />
    </details>
  )
}

/** One record, from the bytes of its proof. */
function Shown(shown: RecordJson): JSX.Element {
  const verification = useVerification(shown)
  const { record } = verification
  return (
    <>
      <p class="sentence">
        <RecordSentence record={record} />
      </p>
      <RecordSource {...verification} />
      <VerifyPanel verification={verification} />
      <details class="panel raw">
        <summary>The record</summary>
        <pre>
          <Untrusted text={JSON.stringify(record, null, 2)} cut={20_000} isBlock />
        </pre>
      </details>
    </>
  )
}

type Day = LogJson['days'][number]

const states = {
  sealed: 'sealed',
  open: 'sealed up to the last seconds',
  removed: 'removed by retention',
  gap: 'sealed records are MISSING',
  empty: 'no records',
} as const

const CELL = 24
const HEIGHT = 28
const LISTED = 31

/** The days of the log as a strip, and as a list. */
function DayStrip({ days }: { readonly days: LogJson['days'] }): JSX.Element {
  const gaps = days.filter(({ state }) => state === 'gap')
  const [first, last] = [days[0], days.at(-1)]
  if (first === undefined || last === undefined) return <p class="empty">The log has no day yet.</p>
  return (
    <figure class="log-days panel">
      <figcaption>
        <h2>Days</h2>
        <span class={gaps.length === 0 ? 'badge good' : 'badge bad'}>
          {gaps.length === 0
            ? 'no gap'
            : `${gaps.length} with a gap: ${gaps.map(({ day }) => day).join(', ')}`}
        </span>
      </figcaption>
      <div class="log-strip">
        <svg
          width={days.length * CELL}
          height={HEIGHT}
          viewBox={`0 0 ${days.length * CELL} ${HEIGHT}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={`Days from ${first.day} to ${last.day}`}
        >
          {days.map((day, at) => (
            <rect
              key={day.day}
              class={`day-${day.state}`}
              x={at * CELL + 1}
              y={1}
              width={CELL - 2}
              height={HEIGHT - 2}
              rx={3}
            >
              <title>{`${day.day}: ${describe(day)}`}</title>
            </rect>
          ))}
        </svg>
        <p class="log-ends">
          <span>{first.day}</span>
          {days.length > 1 && <span>{last.day}</span>}
        </p>
      </div>
      <ul class="log-legend">
        {(['sealed', 'open', 'removed', 'gap', 'empty'] as const)
          .filter((state) => days.some((day) => day.state === state))
          .map((state) => (
            <li key={state}>
              <span class={`key day-${state}`} aria-hidden="true" /> {states[state]}
            </li>
          ))}
      </ul>
      <details>
        <summary>The last days as a list</summary>
        <ul>
          {days.slice(-LISTED).map((day) => (
            <li key={day.day}>
              <a href={hrefOf(day)}>{day.day}</a>: {describe(day)}
            </li>
          ))}
        </ul>
      </details>
    </figure>
  )
}

function describe({ state, records }: Day): string {
  return `${states[state]}, ${records.toLocaleString('en')} sealed records`
}

/** Its records. */
function hrefOf({ day }: Day): string {
  const until = new Date(Date.parse(day) + 86_400_000).toISOString().slice(0, 10)
  return `/console/log?${new URLSearchParams({ since: day, until })}`
}

/** A witness that confirms nothing for this long is late. */
const LATE_MS = 3_600_000

/** The newest head, the last one that witnesses confirmed, and the records that wait. */
function Heads({ log }: { readonly log: LogJson }): JSX.Element {
  const { origin, head, cosigned, sealed_at: sealedAt, writing, upload } = log
  return (
    <dl class="log-facts panel">
      <Fact name="Log">{origin === null ? 'without a journal' : <Untrusted text={origin} cut={120} />}</Fact>
      <Fact name="Head">
        {head === null ? (
          'none yet'
        ) : (
          <>
            {head.size.toLocaleString('en')} leaves,{' '}
            <span class="mono" title={head.root}>
              {head.root.slice(0, 12)}…
            </span>{' '}
            <Copy value={head.note} label="the signed checkpoint">
              copy the checkpoint
            </Copy>
          </>
        )}
      </Fact>
      <Fact name="Last seal">{sealedAt === null ? 'none yet' : <Time at={sealedAt} show="ago" />}</Fact>
      <Fact name="Last witness">{cosigned === null ? 'no witness' : <Witnesses cosigned={cosigned} />}</Fact>
      <Fact name="Writing">
        <span class={`badge ${writing.writable ? (writing.warning === undefined ? 'good' : 'warn') : 'bad'}`}>
          {writing.writable ? 'writable' : 'NOT WRITABLE'}
        </span>{' '}
        {writing.warning !== undefined && <Untrusted text={writing.warning} />}
      </Fact>
      {upload !== undefined && (
        <Fact name="Upload">
          {upload.state}, <Waiting bytes={upload.pending_bytes} ms={upload.lag_ms ?? 0} />
        </Fact>
      )}
    </dl>
  )
}

function Fact({
  name,
  children,
}: {
  readonly name: string
  readonly children: ComponentChildren
}): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}

function Witnesses({ cosigned }: { readonly cosigned: NonNullable<LogJson['cosigned']> }): JSX.Element {
  const now = useNow()
  const newest =
    cosigned.witnesses
      .map(({ at }) => at)
      .sort()
      .at(-1) ?? ''
  const isLate = now - Date.parse(newest) > LATE_MS
  return (
    <span class={isLate ? 'warn' : ''}>
      <Time at={newest} show="ago" />, at {cosigned.size.toLocaleString('en')} leaves, by{' '}
      <Untrusted text={cosigned.witnesses.map(({ name }) => name).join(', ')} cut={120} />
      {isLate && ' — late'}
    </span>
  )
}

function Waiting({ bytes, ms }: { readonly bytes: number; readonly ms: number }): JSX.Element {
  if (bytes === 0) return <>nothing waits</>
  return (
    <>
      {bytes.toLocaleString('en')} bytes wait, since {inWords(ms)}
    </>
  )
}
