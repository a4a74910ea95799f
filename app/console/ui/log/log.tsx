// The state of the log above, and below its records or the one that the path names.
import type { JSX } from 'preact'
import { useEffect } from 'preact/hooks'
import type { RecordJson } from '../../../log/log-json.js'
import { ErrorBanner, useLoaded } from '../kit/error-banner.js'
import { usePage } from '../kit/page.js'
import { Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'
import type { ViewProps } from '../kit/view.js'
import { RecordSource, useVerification } from '../verify/use-verification.js'
import { VerifyPanel } from '../verify/verify-panel.js'
import { DayStrip } from './day-strip.js'
import { EvidenceForm } from './evidence.js'
import { Heads } from './heads.js'
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
