import { isTooCostly, MAX_COST } from '@svc/core/json'
import { expect } from 'chai'

const MIB = 1_048_576
/** The limits are for the heap that Node has by default. */
const scale = MAX_COST / (64 * MIB)

function list(item: (index: number) => string, bytes: number): string {
  const items: string[] = []
  for (let index = 0, size = 0; size < bytes * scale; index++) {
    const next = item(index)
    items.push(next)
    size += next.length + 1
  }
  return `[${items.join(',')}]`
}

const row = (index: number): string =>
  `{"id":${index},"name":"name of ${index}","price":12.5,"when":"2026-01-01T00:00:00Z","tags":["a","b"]}`

const texts: readonly (readonly [what: string, isRefused: boolean, text: () => string])[] = [
  ['12 MiB of rows', false, () => list(row, 12 * MIB)],
  [
    'a table of 1.5 MiB with 50,000 containers',
    false,
    () => list((index) => `["${index}","twenty characters"]`, 1.5 * MIB),
  ],
  ['a string of 60 MiB', false, () => `"${'x'.repeat(60 * MIB * scale)}"`],
  ['a string full of what costs outside of strings', false, () => `"${'{},:[]'.repeat(2 * MIB)}"`],
  ['escaped quotes in a string', false, () => `"${'\\"{},'.repeat(MIB)}"`],
  ['20 MiB of empty objects', true, () => list(() => '{}', 20 * MIB)],
  ['20 MiB of empty arrays', true, () => list(() => '[]', 20 * MIB)],
  ['20 MiB of numbers', true, () => list(() => '1', 20 * MIB)],
  ['20 MiB of short strings', true, () => list((index) => `"${index % 100}"`, 20 * MIB)],
  ['10 MiB of different members', true, () => `{${list((index) => `"m${index}":1`, 10 * MIB).slice(1, -1)}}`],
  ['nesting over 512 levels', true, () => `${'['.repeat(600)}${']'.repeat(600)}`],
  ['nesting of 512 levels', false, () => `${'['.repeat(512)}${']'.repeat(512)}`],
]

describe('the cost of a response', () => {
  for (const [what, isRefused, text] of texts) {
    it(`is ${isRefused ? 'too high' : 'accepted'}: ${what}`, () => {
      expect(isTooCostly(text())).to.equal(isRefused)
    })
  }
})
