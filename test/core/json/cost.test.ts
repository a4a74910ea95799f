// A MiB of any text costs at most four times what a MiB of ordinary text does, or is refused for less. Told by processor
// time.
import { canonicalize, parseJson } from '@svc/core/json'
import { expect } from 'chai'
import { cpuTimeOf } from '../../support/cpu-time.js'

const MIB = 2 ** 20
const MAX_RATIO = 4

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
  'short strings with a fault at the end': broken(list('""')),
  'digits with a fault at the end': broken(list('1')),
  'ordinary objects with a fault at the end': broken(list(person)),
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

function read(bytes: Uint8Array): void {
  let value: ReturnType<typeof parseJson>
  try {
    value = parseJson(bytes)
  } catch {
    return
  }
  canonicalize(value)
}

/** Milliseconds, the least of several runs. */
async function cost(text: string): Promise<number> {
  const bytes = Buffer.from(text)
  let least = Number.POSITIVE_INFINITY
  for (let run = 0; run < 5; run++) least = Math.min(least, await cpuTimeOf(() => read(bytes)))
  return least
}

describe('the cost of reading JSON', () => {
  for (const [name, text] of Object.entries(hostile)) {
    it(`is at most four times that of ordinary text: ${name}`, async () => {
      let ratio = Number.POSITIVE_INFINITY
      for (let tries = 0; tries < 3 && ratio > MAX_RATIO; tries++) {
        ratio = (await cost(text)) / (await cost(list(person)))
      }
      expect(ratio).to.be.at.most(MAX_RATIO)
    })
  }
})
