import { foldName } from '@svc/core/match'
import { expect } from 'chai'
import fc from 'fast-check'
import { propertyRuns } from '../../support/property-runs.js'

const invisible = /[\u00ad\u200b-\u200f\u2060\ufeff]/g

const readers: Readonly<Record<string, (text: string) => string>> = {
  NFC: (text) => text.normalize('NFC'),
  NFD: (text) => text.normalize('NFD'),
  NFKC: (text) => text.normalize('NFKC'),
  'lower case': (text) => text.toLowerCase(),
  'upper case': (text) => text.toUpperCase(),
  'lower case of each letter': (text) =>
    [...text].map((letter) => letter.replace('İ', 'i').toLowerCase()).join(''),
  trimming: (text) => text.trim(),
  'trimming spaces and dots': (text) => text.replace(/^[\s.]+|[\s.]+$/g, ''),
  'removing what is not shown': (text) => text.replace(invisible, ''),
}

/** Every character, and runs of those that folds treat specially. */
const character = fc.oneof(
  fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
  fc.constantFrom(
    ...['a', 'S', 'ſ', 'ß', 'ẞ', 'ς', 'Σ', 'İ', 'ı', 'i', '\u212a', '\uff21', 'ﬁ', 'ŉ', 'ǰ', '…', ' ', '.'],
    ...['\u00a0', '\u0307', '\u0301', '\u200b', '\u00ad', '\ufeff', '\u034f', '\u3164', '\u1160'],
  ),
)

describe('the fold of a name', () => {
  it('is equal for every spelling that a program reads as the name', () => {
    fc.assert(
      fc.property(fc.array(character, { maxLength: 6 }), (parts) => {
        const name = parts.join('').normalize('NFC')
        const fold = foldName(name)
        expect(foldName(fold), 'of the fold').to.equal(fold)
        for (const [how, read] of Object.entries(readers)) expect(foldName(read(name)), how).to.equal(fold)
      }),
      { numRuns: propertyRuns(3_000) },
    )
  })

  for (const [name, fold] of [
    ['get_invoice', 'get_invoice'],
    ['Get.Invoice', 'get.invoice'],
    [' ..get_invoice.\u00a0', 'get_invoice'],
    ['\uff32e\u200bfun\u00add\ufeff', 'refund'],
    ['STRASSE', 'strasse'],
    ['straße', 'strasse'],
    ['a b', 'a b'],
    ['а', 'а'],
    ['', ''],
  ] as const) {
    it(`of ${JSON.stringify(name)} is ${JSON.stringify(fold)}`, () => {
      expect(foldName(name)).to.equal(fold)
    })
  }
})
