// The days of the log as a strip, and as a table for screen readers.
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

const CELL = 14
const HEIGHT = 28

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
              <title>{describe(day)}</title>
            </rect>
          ))}
        </svg>
      </div>
      <div class="log-ends">
        <span>{first.day}</span>
        <ul class="log-legend">
          {(['sealed', 'open', 'removed', 'gap', 'empty'] as const)
            .filter((state) => days.some((day) => day.state === state))
            .map((state) => (
              <li key={state}>
                <span class={`key day-${state}`} aria-hidden="true" /> {states[state]}
              </li>
            ))}
        </ul>
        <span>{last.day}</span>
      </div>
      <ul class="sr">
        {days.slice(-31).map((day) => (
          <li key={day.day}>{describe(day)}</li>
        ))}
      </ul>
    </figure>
  )
}

function describe({ day, state, records }: Day): string {
  return `${day}: ${states[state]}, ${records.toLocaleString('en')} sealed records`
}
