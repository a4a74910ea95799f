// Where a call waited, as bars over its time, in a table that says the same.
import type { JSX } from 'preact'
import type { CallJson } from '../../calls/show-call.js'

interface StageTimelineProps {
  readonly stages: CallJson['stages']
  readonly totalMs: number
}

export function StageTimeline({ stages, totalMs }: StageTimelineProps): JSX.Element {
  const total = Math.max(totalMs, ...(stages ?? []).map((stage) => stage.to_ms), 0.001)
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
        <table>
          <caption class="sr">Where the call waited, of {totalMs.toFixed(1)} ms</caption>
          <thead>
            <tr>
              <th scope="col">Stage</th>
              <th scope="col">Waited</th>
              <th scope="col" class="number">
                ms
              </th>
            </tr>
          </thead>
          <tbody>
            {stages.map(({ stage, from_ms: from, to_ms: to }) => (
              <tr key={`${stage} ${from}`}>
                <td class="mono">{stage}</td>
                <td>
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
                </td>
                <td class="number">{(to - from).toFixed(1)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  )
}
