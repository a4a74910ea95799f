// One call with all details: a sentence, its waits, the decision, the caller's response, and its proof.
import type { JSX } from 'preact'
import type { CallRow } from '../../calls/call-row.js'
import type { CallJson } from '../../calls/show-call.js'
import { CallList } from '../kit/call-list.js'
import { Copy } from '../kit/copy.js'
import { CallDecisionBadge } from '../kit/decision.js'
import { usePage } from '../kit/page.js'
import { type Column, Table } from '../kit/table.js'
import { Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'
import { AsTheGatewaySays, RecordSource, useVerification } from '../verify/use-verification.js'
import { VerifyPanel } from '../verify/verify-panel.js'
import { CallSentence } from './call-sentence.js'
import { DecisionPanel } from './decision-panel.js'
import { loadCall } from './load.js'
import { type CallOfRecord, callIn } from './recorded-call.js'

interface CallViewProps {
  readonly shown: CallJson
  /** The id, as it is in the path. */
  readonly id: string
}

export function CallView({ shown, id }: CallViewProps): JSX.Element {
  const { api } = usePage()
  const { leaf, stages, siblings } = shown
  const findLeaf = async () => (await loadCall(api, id)).leaf
  const verification = useVerification({ leaf, record: shown.record, findLeaf })
  const { record } = verification
  const call = callIn(record)
  return (
    <article class="call">
      <p>
        <a href="/console/live">← Live</a>
      </p>
      <h1 class="sentence">
        <CallSentence call={call} record={record} />
      </h1>
      <RecordSource {...verification} />
      <p class="facts-line">
        <CallDecisionBadge call={call} /> <Time at={call.at} show="day and time" /> · trace{' '}
        <Copy value={call.trace_id} label="the trace id">
          {call.trace_id.slice(0, 8)}
        </Copy>
        {call.escalation_id !== undefined && (
          <>
            {' · '}
            <a href={`/console/approvals/${encodeURIComponent(call.escalation_id)}`}>its approval</a>
          </>
        )}
      </p>
      <div class="call-panels">
        <div class="call-column">
          <DecisionPanel shown={{ ...shown, record }} />
          <Told told={shown.told} call={call} record={record} />
        </div>
        <div class="call-column">
          <StageTimeline stages={stages} totalMs={call.latency_ms} />
          <Definition definition={shown.definition} record={record} />
        </div>
      </div>
      <VerifyPanel verification={verification} />
      <Siblings siblings={siblings} />
      <details class="panel raw">
        <summary>The record</summary>
        <pre class="record">
          <Untrusted text={JSON.stringify(record, null, 2)} cut={20_000} isBlock />
        </pre>
      </details>
    </article>
  )
}

interface ToldProps extends Pick<CallJson, 'told' | 'record'> {
  readonly call: CallOfRecord
}

function Told({ told, call, record }: ToldProps): JSX.Element {
  const output = record['output_sha256']
  return (
    <section class="panel">
      <h2>What the caller was told</h2>
      {call.error !== undefined && (
        <p>
          <code>{call.error}</code>
        </p>
      )}
      {told !== undefined && (
        <>
          <blockquote>
            <Untrusted text={told} cut={600} isBlock />
          </blockquote>
          <AsTheGatewaySays />
        </>
      )}
      {call.error !== undefined && told === undefined && (
        <p class="hint">The words of the response are kept for the last calls of the process alone.</p>
      )}
      {call.error === undefined && <p>The response of the server.</p>}
      {typeof output === 'string' && (
        <p class="hint">
          SHA-256 of what was delivered: <code class="hash">{output}</code>
        </p>
      )}
    </section>
  )
}

function Definition({ definition, record }: Pick<CallJson, 'definition' | 'record'>): JSX.Element {
  const sha256 = record['definition_sha256']
  return (
    <section class="panel">
      <h2>The definition served</h2>
      {typeof sha256 !== 'string' && (
        <p class="hint">
          {sha256 === null
            ? 'The caller was served no definition of this tool.'
            : 'The policy does not watch definitions, so that none is on record.'}
        </p>
      )}
      {typeof sha256 === 'string' && (
        <p>
          SHA-256 <code class="hash">{sha256}</code>
        </p>
      )}
      {definition !== undefined && (
        <>
          <p class="hint">
            First served <Time at={definition.at} show="day and time" />
            {definition.leaf !== null && (
              <>
                {', '}
                <a href={`/console/log/${definition.leaf}`}>its record at leaf {definition.leaf}</a>
              </>
            )}
          </p>
          <pre class="definition">
            <Untrusted text={indentedJson(definition.text)} cut={2_000} isBlock />
          </pre>
          <AsTheGatewaySays />
        </>
      )}
    </section>
  )
}

function Siblings({ siblings }: { readonly siblings: readonly CallRow[] }): JSX.Element {
  return (
    <section class="panel siblings">
      <h2>The same trace</h2>
      {siblings.length === 0 ? (
        <p class="hint">No other call among the newest.</p>
      ) : (
        <>
          <CallList
            caption="Calls of the same trace, the newest first"
            calls={siblings}
            name="server and tool"
          />
          <AsTheGatewaySays />
        </>
      )}
    </section>
  )
}

/** Canonical JSON with line breaks. */
function indentedJson(text: string): string {
  return JSON.stringify(JSON.parse(text), null, 2)
}

interface StageTimelineProps {
  readonly stages: CallJson['stages']
  readonly totalMs: number
}

type StageWait = NonNullable<CallJson['stages']>[number]

/** The stages in which a call waited, as bars over its time, in a table that says the same. */
function StageTimeline({ stages, totalMs }: StageTimelineProps): JSX.Element {
  const total = Math.max(totalMs, ...(stages ?? []).map((stage) => stage.to_ms), 0.001)
  const columns: readonly Column<StageWait>[] = [
    { name: 'Stage', class: 'mono', cell: ({ stage }) => stage },
    { name: 'Waited', cell: (wait) => <WaitBar wait={wait} total={total} /> },
    { name: 'ms', class: 'number', cell: ({ from_ms: from, to_ms: to }) => (to - from).toFixed(1) },
  ]
  return (
    <section class="panel timeline">
      <h2>Stages</h2>
      {stages === undefined && (
        <p class="hint">
          Times are kept for the last 1,000 calls of each process, in memory; this call is not one of them.
        </p>
      )}
      {stages !== undefined && stages.length === 0 && (
        <p class="hint">No stage waited for 0.1 ms or more, and nothing was sent.</p>
      )}
      {stages !== undefined && stages.length > 0 && (
        <>
          <Table
            caption={`Where the call waited, of ${totalMs.toFixed(1)} ms`}
            columns={columns}
            rows={stages}
            keyOf={({ stage, from_ms: from }) => `${stage} ${from}`}
          />
          <AsTheGatewaySays />
        </>
      )}
    </section>
  )
}

function WaitBar({ wait, total }: { readonly wait: StageWait; readonly total: number }): JSX.Element {
  const { stage, from_ms: from, to_ms: to } = wait
  return (
    <svg
      class="span"
      viewBox="0 0 100 10"
      preserveAspectRatio="none"
      role="img"
      aria-label={`from ${from.toFixed(1)} to ${to.toFixed(1)} ms`}
    >
      <rect class="track" x="0" y="0" width="100" height="10" />
      <rect
        class={stage === 'upstream' ? 'fill accent' : 'fill soft'}
        x={((100 * from) / total).toFixed(2)}
        y="0"
        width={Math.max(0.8, (100 * (to - from)) / total).toFixed(2)}
        height="10"
      />
    </svg>
  )
}
