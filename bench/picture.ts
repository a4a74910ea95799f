// Draws docs/performance.svg from recorded profiles: the CPU time of a call by part, as one bar for each program. Run by
// `node bench/dist/picture.js`; runs/ holds what `npm run bench -- --only profile --record FILE` wrote.
import { readFile, writeFile } from 'node:fs/promises'
import type { RecordedRun } from './measure/recorded-run.js'
import { table } from './measure/report.js'
import { quantile } from './measure/statistics.js'
import { type Parts, sum } from './profile/call-profile.js'
import { type Group, groups, isIn } from './profile/parts.js'
import type { Profiles } from './profile.js'

const WIDTH = 760
const LEFT = 130
const BAR = 30
const LINE = 20

const [before, now] = [await profilesIn('before'), await profilesIn('now')]
const bars = [barOf('before', before, 'gateway'), barOf('now', now, 'gateway'), barOf('relay', now, 'relay')]
const scale = (WIDTH - LEFT - 60) / Math.max(...bars.map(({ total }) => total))

await writeFile(new URL('../../docs/performance.svg', import.meta.url), picture())
table([
  ['CPU µs of a call', ...bars.map(({ name }) => name)],
  ...groups.map(({ name }, at) => [name, ...bars.map(({ times }) => (times[at] ?? 0).toFixed(0))]),
  ['together', ...bars.map(({ total }) => total.toFixed(0))],
])

/** The profiles of the runs in bench/runs/`name`.json. */
async function profilesIn(name: string): Promise<readonly Profiles[]> {
  const file = new URL(`../runs/${name}.json`, import.meta.url)
  const runs: readonly RecordedRun[] = JSON.parse(await readFile(file, 'utf8'))
  return runs.flatMap(({ rounds }) =>
    rounds['profile'] === undefined ? [] : [rounds['profile'] as Profiles],
  )
}

/** Medians of the runs, by group. */
function barOf(name: string, profiles: readonly Profiles[], subject: keyof Profiles) {
  const times = groups.map((group) =>
    quantile(
      profiles.map((profile) => sumOfGroup(group, profile[subject].cpu)),
      0.5,
    ),
  )
  return { name, times, total: sum(times) }
}

function sumOfGroup(group: Group, parts: Parts): number {
  return sum(Object.entries(parts).map(([part, micros]) => (isIn(group, part) ? micros : 0)))
}

function picture(): string {
  const legendTop = 20 + bars.length * (BAR + 14)
  const height = legendTop + Math.ceil(groups.length / 2) * LINE + 10
  const lines = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="sans-serif" font-size="13">`,
    '<title>CPU time of a call by part, in microseconds</title>',
    `<rect width="${WIDTH}" height="${height}" fill="#ffffff"/>`,
    ...bars.flatMap((bar, at) => barAt(bar, 20 + at * (BAR + 14))),
    ...groups.flatMap(({ name, colour }, at) => {
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
  const pieces = groups.map(({ name: part, colour }, at) => {
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
