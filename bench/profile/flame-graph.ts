// A flame graph of a profile as a static SVG: callees below their callers, widths in proportion to the CPU time.
import { ANONYMOUS, type Frame } from './frames.js'
import { groups, isIn, MICROTASKS, partOf, STREAMS, UNDICI } from './parts.js'
import { fileOf } from './sites.js'

const WIDTH = 1200
const ROW = 16
const LEGEND_COLUMNS = 4
const TOP = (Math.ceil(groups.length / LEGEND_COLUMNS) + 1) * ROW
const LETTER = 6.1
/** Narrower bars are left out. */
const MIN_SHARE = 0.004

/** One or more frames. */
interface Bar {
  readonly label: string
  readonly part: string
  /** The weight of the frames and of what they called. */
  weight: number
  readonly inner: Map<string, Bar>
}

/** @param micros the CPU time of a call, which the widths divide. */
export function flameGraph(root: Frame, micros: number): string {
  const whole = barOf(`a call: ${micros.toFixed(0)} µs on the event loop`, '')
  addFrame(root, [whole])
  const shapes: string[] = []
  const draw = (bar: Bar, x: number, row: number): number => {
    const share = bar.weight / whole.weight
    if (share < MIN_SHARE) return row
    shapes.push(...shapesOf(bar, { x, row, share, micros: share * micros }))
    let left = x
    let end = row + 1
    for (const inner of [...bar.inner.values()].sort((a, b) => b.weight - a.weight)) {
      end = Math.max(end, draw(inner, left, row + 1))
      left += (inner.weight / whole.weight) * WIDTH
    }
    return end
  }
  const height = TOP + draw(whole, 0, 0) * ROW
  const lines = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="monospace" font-size="10">`,
    '<title>CPU time of a call by function, in microseconds</title>',
    '<style>rect { fill-opacity: 0.7 } rect:first-of-type { fill-opacity: 1 } text { pointer-events: none }</style>',
    `<rect width="${WIDTH}" height="${height}" fill="#ffffff"/>`,
    ...groups.flatMap(({ name, colour }, at) => {
      const x = 4 + (at % LEGEND_COLUMNS) * (WIDTH / LEGEND_COLUMNS)
      const y = 4 + Math.floor(at / LEGEND_COLUMNS) * ROW
      return [`<rect x="${x}" y="${y}" width="10" height="10" fill="${colour}"/>`, text(x + 14, y + 9, name)]
    }),
    ...shapes,
    '</svg>',
  ]
  return `${lines.join('\n')}\n`
}

/** Adds the weight of a frame, and of what it called, to the bars that hold it. */
function addFrame(frame: Frame, stack: readonly Bar[], partOfCaller?: string): void {
  const part = partOf(frame, partOfCaller)
  if (part === undefined) return
  const caller = stack.at(-1)
  const label = labelOf(frame, part, caller?.label)
  const isOwn = label !== undefined && label !== caller?.label
  const bars = isOwn && caller !== undefined ? [...stack, barIn(caller, label, part)] : stack
  for (const bar of bars) bar.weight += frame.weight
  for (const callee of frame.callees) addFrame(callee, bars, part)
}

/**
 * Undefined for what is drawn with its caller: functions of the engine, those that only call the next step, and closures
 * of the same file. Functions of node in a row are one bar, and so are those of undici.
 */
function labelOf({ name, url }: Frame, part: string, caller = ''): string | undefined {
  if (url === '') return name.startsWith('(') && name !== '(root)' ? name : undefined
  if (part === UNDICI) return part
  if (url.startsWith('node:')) return part === STREAMS || part === MICROTASKS ? part : 'node'
  const file = fileOf(url)
  if (/\/(maybe-promise|compose)\.ts$/.test(file)) return undefined
  if (name !== ANONYMOUS) return `${name} ${file}`
  return caller.endsWith(file) ? undefined : file
}

function barIn({ inner }: Bar, label: string, part: string): Bar {
  const bar = inner.get(label) ?? barOf(label, part)
  inner.set(label, bar)
  return bar
}

function barOf(label: string, part: string): Bar {
  return { label, part, weight: 0, inner: new Map() }
}

interface Place {
  readonly x: number
  readonly row: number
  /** The bar's part of the whole. */
  readonly share: number
  readonly micros: number
}

function shapesOf({ label, part }: Bar, { x, row, share, micros }: Place): string[] {
  const [y, width] = [TOP + row * ROW, share * WIDTH]
  const colour = groups.find((group) => isIn(group, part))?.colour ?? '#eeeeee'
  const place = `x="${x.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="${ROW - 1}"`
  const title = escaped(`${label}: ${micros.toFixed(1)} µs, ${(100 * share).toFixed(1)} %`)
  const letters = Math.floor((width - 4) / LETTER)
  // If there is no room for the path, the label has its last folder alone.
  const fitting = label.length > letters ? label.replace(/\S+\/(?=\S+\/)/, '').slice(0, letters) : label
  const shown = letters < 3 ? [] : [text(x + 2, y + 11, fitting)]
  return [`<rect ${place} fill="${colour}"><title>${title}</title></rect>`, ...shown]
}

/** The pointer passes through, so that the title of the bar below shows. */
function text(x: number, y: number, shown: string): string {
  return `<text x="${x.toFixed(1)}" y="${y}" fill="#111111">${escaped(shown)}</text>`
}

function escaped(shown: string): string {
  return shown.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;')
}
