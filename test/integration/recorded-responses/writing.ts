// How servers may write a result: every separator and control character, written in every way and cut at any byte.
import { Chance } from '../../support/chance.js'

export const seed = Number(process.env['SVC_SEED'] ?? 1)

/** Characters that some reader takes for the end of a line, or drops. */
const separators: readonly [string, ...string[]] = [
  ...(['\n', '\r', '\r\n', '\n\n', '\u2028', '\u2029', '\u0085', '\v', '\f', '\0'] as const),
  ...(['\u001f', '\u001e', '\u007f', '\ufeff', '\u00a0', '\u200b', '\u202e', '\t', ' '] as const),
]
const fields: readonly [string, ...string[]] = [
  ...([
    'id: 1',
    'id:',
    'data: x',
    'event: y',
    'retry: 1',
    ': z',
    '"',
    '\\',
    '{}',
    'ä',
    '\u{1f600}',
    'a',
  ] as const),
]

/** How the upstream writes one result. */
export interface Writing {
  readonly result: object
  /** The JSON of the message around the result. */
  readonly json: string
  readonly lineEnd: string
  /** The lines of an event before its data. */
  readonly before: readonly string[]
  readonly hasMark: boolean
  readonly cuts: readonly number[]
}

function writingOf(chance: Chance, id: unknown): Writing {
  const text = Array.from(
    { length: chance.int(0, 12) },
    () => chance.pick(separators) + chance.pick(fields),
  ).join('')
  const result = {
    content: [{ type: 'text', text }],
    [chance.pick(['structuredContent', 'extra'])]: { [text]: 1 },
  }
  const lineEnd = chance.pick(['\n', '\r', '\r\n'])
  const message = id === undefined ? result : { jsonrpc: '2.0', id, result }
  const json = JSON.stringify(message, null, chance.pick([0, 0, 2]))
  return {
    result: id === undefined ? message : result,
    json: chance.pick([json, json, json, escaped(json)]),
    lineEnd,
    before: Array.from({ length: Math.max(0, chance.int(-2, 3)) }, () =>
      chance.pick(['id: 7', 'id:8', 'id:', 'id: a\u2028b', 'event: message', 'retry: 5', 'note: x', ': hi']),
    ),
    hasMark: chance.int(0, 4) === 0,
    cuts: Array.from({ length: chance.int(0, 4) }, () => chance.int(0, 400)),
  }
}

/** The same JSON without a character outside ASCII. */
function escaped(json: string): string {
  return json.replaceAll(/[^\n -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** Writes the next results: what it wrote since it was begun is in `written`. */
export class Writer {
  written: Writing[] = []
  #chance = new Chance(0)

  begin(run: number): void {
    this.#chance = new Chance(seed * 1_000_003 + run)
    this.written = []
  }

  write(id: unknown): Writing {
    const writing = writingOf(this.#chance, id)
    this.written.push(writing)
    return writing
  }
}

/** The body of the response, in pieces. */
export function piecesOf({ json, lineEnd, before, hasMark, cuts }: Writing, isEvent: boolean): Buffer[] {
  const data = json.split('\n').map((line) => `data: ${line}`)
  const text = isEvent ? `${hasMark ? '\ufeff' : ''}${[...before, ...data, '', ''].join(lineEnd)}` : json
  const whole = Buffer.from(text)
  const at = [0, ...cuts.map((cut) => Math.min(cut, whole.length)).sort((a, b) => a - b), whole.length]
  return at.slice(1).map((end, index) => whole.subarray(at[index], end))
}
