// The CPU time of reading a MiB of hostile JSON, beside a MiB of ordinary JSON. A text may also be refused, for less.
import { canonicalize, JsonInputError, parseJson } from '@svc/core/json'
import { heading, table } from './measure/report.js'

const MIB = 2 ** 20
const RUNS = 5

const person = JSON.stringify({
  id: 12345,
  name: 'Ada Lovelace',
  email: 'ada@example.com',
  tags: ['a', 'b'],
  active: true,
  address: { street: '1 Main St', city: 'Paris' },
})
const list = (item: string) =>
  `[${new Array<string>(Math.floor(MIB / (item.length + 1))).fill(item).join(',')}]`
const broken = (text: string) => `${text.slice(0, -1)}x]`

const members = (count: number, member: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => member(index)).join(',')

const hostile: Readonly<Record<string, string>> = {
  'numbers with exponents': list('1e5'),
  'numbers of many digits': list('0.12345678901234567'),
  'one long number': `[1.${'0'.repeat(MIB)}]`,
  'escaped characters': `"${'\\u00e9'.repeat(MIB / 6)}"`,
  'short strings with an error at the end': broken(list('""')),
  'digits with an error at the end': broken(list('1')),
  'ordinary objects with an error at the end': broken(list(person)),
  'empty arrays': list('[]'),
  'empty objects': list('{}'),
  'deep arrays': list('['.repeat(500) + ']'.repeat(500)),
  'deep objects': list(`${'{"a":'.repeat(500)}1${'}'.repeat(500)}`),
  'different member names': `{${members(100_000, (index) => `"k${index}":1`)}}`,
  'member names that are integers': `{${members(80_000, (index) => `"${4_000_000_000 - index}":1`)}}`,
  'objects of different shapes': `[${members(75_000, (index) => `{"k${index}":1}`)}]`,
  'different member names, the last one twice': `{${members(100_000, (index) => `"k${index}":1`)},"k99999":1}`,
  'digits and half of a surrogate pair': `${list('1').slice(0, -1)},"\\ud800"]`,
}

/** Milliseconds for ordinary text and for each hostile one, the least of several runs. */
export async function measureJson(): Promise<Record<string, number>> {
  heading('CPU time of a MiB of JSON')
  const times = Object.entries({ 'ordinary objects': list(person), ...hostile }).map(
    ([name, text]) => [name, leastTime(text)] as const,
  )
  const ordinary = times[0]?.[1] ?? Number.NaN
  table([
    ['text', 'ms', 'ratio'],
    ...times.map(([name, ms]) => [name, ms.toFixed(1), (ms / ordinary).toFixed(2)]),
  ])
  return Object.fromEntries(times)
}

/** The time of ordinary text over that of the slowest hostile text. */
export async function jsonRatio(): Promise<number> {
  return leastTime(list(person)) / Math.max(...Object.values(hostile).map(leastTime))
}

function leastTime(text: string): number {
  const bytes = Buffer.from(text)
  let least = Number.POSITIVE_INFINITY
  for (let run = 0; run < RUNS; run++) {
    const begun = process.cpuUsage()
    read(bytes)
    const { user, system } = process.cpuUsage(begun)
    least = Math.min(least, (user + system) / 1000)
  }
  return least
}

function read(bytes: Uint8Array): void {
  try {
    canonicalize(parseJson(bytes))
  } catch (error) {
    if (!(error instanceof JsonInputError)) throw error
  }
}
