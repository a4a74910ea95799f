// Draws docs/performance.svg from recorded profiles: the CPU time of a call by part, as one bar for each program. Run by
// `node bench/dist/picture.js`; profiles.json holds the rows that `npm run bench -- --only profile` printed.
import { readFile, writeFile } from 'node:fs/promises'
import { table } from './measure/report.js'
import { quantile } from './measure/statistics.js'

/** Microseconds of a call by part, one object a run. */
type Runs = readonly Readonly<Record<string, number>>[]

/** The parts of the picture, from the profiled ones. */
const parts = [
  { name: 'core', of: ['core'], colour: '#4269d0' },
  { name: 'app (the relay: its own code)', of: ['app', 'bench'], colour: '#97bbf5' },
  { name: 'plugins/audit', of: ['plugins/audit'], colour: '#6cc5b0' },
  { name: 'the signature', of: ['signature'], colour: '#3ca951' },
  {
    name: 'the other sections',
    of: ['plugins/quotas', 'plugins/entitlements', 'plugins/security', 'plugins/authn'],
    colour: '#efb118',
  },
  { name: 'undici', of: ['undici'], colour: '#ff8ab7' },
  { name: 'node:http and streams', of: ['node:http and streams'], colour: '#ff725c' },
  { name: 'event loop and system calls', of: ['event loop and system calls'], colour: '#9c6b4e' },
  { name: 'microtasks', of: ['microtasks'], colour: '#a463f2' },
  { name: 'garbage collection', of: ['garbage collection'], colour: '#9498a0' },
]

const WIDTH = 760
const LEFT = 130
const BAR = 30
const LINE = 20

const recorded: Record<string, Runs> = JSON.parse(
  await readFile(new URL('../profiles.json', import.meta.url), 'utf8'),
)
const bars = Object.entries(recorded).map(([name, runs]) => {
  const times = parts.map(({ of }) => {
    const rounds = runs.map((run) => sum(of.map((part) => run[part] ?? 0)))
    return quantile(rounds, 0.5)
  })
  return { name, times, total: sum(times) }
})
const scale = (WIDTH - LEFT - 60) / Math.max(...bars.map(({ total }) => total))

await writeFile(new URL('../../docs/performance.svg', import.meta.url), picture())
table([
  ['CPU µs of a call', ...bars.map(({ name }) => name)],
  ...parts.map(({ name }, at) => [name, ...bars.map(({ times }) => (times[at] ?? 0).toFixed(0))]),
  ['together', ...bars.map(({ total }) => total.toFixed(0))],
])

function picture(): string {
  const legendTop = 20 + bars.length * (BAR + 14)
  const height = legendTop + Math.ceil(parts.length / 2) * LINE + 10
  const lines = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="13">`,
    '<title>CPU time of a call by part, in microseconds</title>',
    `<rect width="${WIDTH}" height="${height}" fill="#ffffff"/>`,
    ...bars.flatMap((bar, at) => barAt(bar, 20 + at * (BAR + 14))),
    ...parts.flatMap(({ name, colour }, at) => {
      const x = at % 2 === 0 ? LEFT : LEFT + 300
      const y = legendTop + Math.floor(at / 2) * LINE
      return [rectangle(x, y, 12, 12, colour, name), text(x + 18, y + 11, name)]
    }),
    '</svg>',
  ]
  return `${lines.join('\n')}\n`
}

function barAt({ name, times, total }: (typeof bars)[number], y: number): string[] {
  let x = LEFT
  const pieces = parts.map(({ name: part, colour }, at) => {
    const time = times[at] ?? 0
    const piece = rectangle(x, y, time * scale, BAR, colour, `${part}: ${time.toFixed(0)} µs`)
    x += time * scale
    return piece
  })
  return [text(10, y + 20, name), ...pieces, text(x + 6, y + 20, `${total.toFixed(0)} µs`)]
}

function rectangle(
  x: number,
  y: number,
  width: number,
  height: number,
  colour: string,
  title: string,
): string {
  const place = `x="${x.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="${height}"`
  return `<rect ${place} fill="${colour}"><title>${title}</title></rect>`
}

function text(x: number, y: number, shown: string): string {
  return `<text x="${x.toFixed(1)}" y="${y}" fill="#222222">${shown}</text>`
}

function sum(times: readonly number[]): number {
  return times.reduce((all, one) => all + one, 0)
}
