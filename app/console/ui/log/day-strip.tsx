// The days of the log as a strip, and as a list.
import type { JSX } from 'preact'
import type { LogJson } from '../../../log/log-json.js'

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

export function DayStrip({ days }: { readonly days: LogJson['days'] }): JSX.Element {
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
