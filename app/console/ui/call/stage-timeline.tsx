// The stages in which a call waited, as bars over its time, in a table that says the same.
import type { JSX } from 'preact'
import type { CallJson } from '../../calls/show-call.js'
import { type Column, Table } from '../kit/table.js'
import { AsTheGatewaySays } from '../verify/use-verification.js'

interface StageTimelineProps {
  readonly stages: CallJson['stages']
  readonly totalMs: number
}

type StageWait = NonNullable<CallJson['stages']>[number]

export function StageTimeline({ stages, totalMs }: StageTimelineProps): JSX.Element {
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
