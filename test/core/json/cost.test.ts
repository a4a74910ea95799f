// Text whose cost is the gateway's own, not the engine's, costs at most four times what ordinary text of the same length
// does. Told by processor time.
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

const hostile: Readonly<Record<string, string>> = {
  'numbers with exponents': list('1e5'),
  'numbers of many digits': list('0.12345678901234567'),
  'one long number': `[1.${'0'.repeat(MIB)}]`,
  'escaped characters': `"${'\\u00e9'.repeat(MIB / 6)}"`,
  'short strings with a fault at the end': broken(list('""')),
  'digits with a fault at the end': broken(list('1')),
  'ordinary objects with a fault at the end': broken(list(person)),
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
