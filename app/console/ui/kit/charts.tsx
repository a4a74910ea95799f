// Charts in SVG, each with a table that says the same to screen readers.
import type { JSX } from 'preact'
import { Time } from './time.js'

/** One kind of value, with its class for the colour. */
export interface Series<Point> {
  readonly name: string
  readonly tone: 'good' | 'warn' | 'bad' | 'accent' | 'soft'
  value(point: Point): number
}

interface ChartProps<Point extends { readonly at: string }> {
  readonly title: string
  readonly points: readonly Point[]
  readonly series: readonly Series<Point>[]
  readonly format: (value: number) => string
}

const WIDTH = 720
const HEIGHT = 120

/** Bars over time; the values of a point stand on each other, the first series below. */
export function BarChart<Point extends { readonly at: string }>(props: ChartProps<Point>): JSX.Element {
  const { points, series } = props
  const top = niceTop(Math.max(0, ...points.map((point) => sum(series.map((one) => one.value(point))))))
  const step = WIDTH / Math.max(1, points.length)
  return (
    <Frame {...props} top={top}>
      {points.map((point, index) => {
        let below = 0
        return series.map((one) => {
          const height = (one.value(point) / top) * HEIGHT
          if (height === 0) return null
          below += height
          const x = index * step
          return (
            <rect
              key={`${point.at} ${one.name}`}
              class={`fill ${one.tone}`}
              x={x.toFixed(2)}
              y={(HEIGHT - below).toFixed(2)}
              width={Math.max(0.5, step - 1).toFixed(2)}
              height={Math.max(1, height).toFixed(2)}
            />
          )
        })
      })}
    </Frame>
  )
}

/** A line for each series; a point without a value interrupts it. */
export function LineChart<Point extends { readonly at: string }>(props: ChartProps<Point>): JSX.Element {
  const { points, series } = props
  const top = niceTop(Math.max(0, ...points.flatMap((point) => series.map((one) => one.value(point)))))
  const step = WIDTH / Math.max(1, points.length)
  return (
    <Frame {...props} top={top}>
      {series.map((one) => (
        <path key={one.name} class={`stroke ${one.tone}`} d={lineOf(points.map(one.value), step, top)} />
      ))}
    </Frame>
  )
}

/** A value alone has a line of one step, so that it is seen. */
function lineOf(values: readonly number[], step: number, top: number): string {
  return values
    .map((value, index) => {
      if (value === 0) return ''
      const y = (HEIGHT - (value / top) * HEIGHT).toFixed(2)
      const begins = index === 0 || values[index - 1] === 0
      return `${begins ? 'M' : 'L'}${(index * step).toFixed(2)} ${y}H${((index + 1) * step).toFixed(2)}`
    })
    .join('')
}

function Frame<Point extends { readonly at: string }>({
  title,
  points,
  series,
  format,
  top,
  children,
}: ChartProps<Point> & {
  readonly top: number
  readonly children: JSX.Element[] | (JSX.Element | null)[][]
}): JSX.Element {
  const [first, last] = [points[0], points.at(-1)]
  return (
    <figure class="chart">
      <figcaption>
        <h2>{title}</h2>
        <ul class="legend" aria-hidden="true">
          {series.map(({ name, tone }) => (
            <li key={name}>
              <span class={`swatch ${tone}`} /> {name}
            </li>
          ))}
        </ul>
      </figcaption>
      {points.length === 0 ? (
        <p class="none">No call yet.</p>
      ) : (
        <div class="plot" aria-hidden="true">
          <span class="scale">{format(top)}</span>
          <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none">
            <title>{title}</title>
            <path class="grid" d={`M0 0H${WIDTH}M0 ${HEIGHT / 2}H${WIDTH}M0 ${HEIGHT}H${WIDTH}`} />
            {children}
          </svg>
          {first !== undefined && last !== undefined && (
            <p class="axis">
              <Time at={first.at} show="day and time" isCell />
              {last !== first && <Time at={last.at} show="day and time" isCell />}
            </p>
          )}
        </div>
      )}
      <div class="sr">
        <table>
          <caption>{title}</caption>
          <thead>
            <tr>
              <th scope="col">Time</th>
              {series.map(({ name }) => (
                <th key={name} scope="col">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {points
              .filter((point) => series.some((one) => one.value(point) > 0))
              .map((point) => (
                <tr key={point.at}>
                  <th scope="row">
                    <Time at={point.at} show="day and time" isCell />
                  </th>
                  {series.map((one) => (
                    <td key={one.name}>{format(one.value(point))}</td>
                  ))}
                </tr>
              ))}
          </tbody>
        </table>
      </div>
    </figure>
  )
}

/** A share between 0 and 1 as a bar, beside the number that says it. */
export function Share({
  of,
  tone = 'accent',
}: {
  readonly of: number
  readonly tone?: Series<never>['tone']
}): JSX.Element {
  return (
    <svg class="share" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
      <rect class="track" x="0" y="0" width="100" height="6" />
      <rect
        class={`fill ${tone}`}
        x="0"
        y="0"
        width={(100 * Math.min(1, Math.max(0, of))).toFixed(1)}
        height="6"
      />
    </svg>
  )
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

/** The next of 1, 2, 5, 10, 20, … */
function niceTop(value: number): number {
  if (value <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(value))
  return ([1, 2, 5, 10].find((factor) => factor * power >= value) ?? 10) * power
}
