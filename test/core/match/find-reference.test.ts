import { compilePatternSet, findReference, type MatchedList, NotComparableError } from '@svc/core/match'
import { expect } from 'chai'
import fc from 'fast-check'
import { propertyRuns } from '../../support/property-runs.js'

const allow = (...patterns: string[]): MatchedList => ({ patterns })
const deny = (...patterns: string[]): MatchedList => ({ patterns, isFolded: true })

function isIn({ patterns, isFolded = false }: MatchedList, reference: string): boolean {
  const set = compilePatternSet(patterns)
  return isFolded ? set.findReading([reference]) !== undefined : set.matches(reference)
}

describe('the search for a reference that some lists match and others do not', () => {
  for (const [title, inside, outside, found] of [
    ['a literal', [allow('billing/get@1')], [], 'mcp://billing/get@1'],
    ['a star', [allow('billing/get_*')], [], 'mcp://billing/get_@x'],
    [
      'nothing beside a pattern that covers it',
      [allow('billing/get_*@1.*')],
      [allow('billing/*')],
      undefined,
    ],
    ['nothing beside two that cover it together', [allow('a/*')], [allow('a/*@*'), allow('b/*')], undefined],
    [
      'what a narrower pattern leaves',
      [allow('billing/*')],
      [allow('billing/*_invoice')],
      'mcp://billing/x@x',
    ],
    ['the part of two that overlap', [allow('a*z'), allow('*bz')], [], 'mcp://x/abz@x'],
    ['nothing where two have no part in common', [allow('billing/a*')], [], 'mcp://billing/a@x'],
    ['nothing where a list denies the folded name', [allow('files/DELETE')], [deny('delete')], undefined],
    [
      'a name that is denied in lower case alone',
      [allow('files/*'), deny('delete')],
      [allow('*delete')],
      'mcp://files/deletE@x',
    ],
    ['a prompt', [allow('files/prompts/*')], [], 'mcp://files/prompts/x@x'],
    [
      'a resource in normal form',
      [allow('files/resources/file:///a/*')],
      [],
      'mcp://files/resources/file:%2F%2F%2Fa%2Fx@x',
    ],
    ['a letter that is folded to two', [allow('files/paß'), deny('pass')], [], 'mcp://files/paß@x'],
  ] as const) {
    it(`finds ${title}`, () => {
      expect(findReference({ inside, outside })).to.equal(found)
    })
  }

  it('finds what two long lists that are nearly the same differ in, with work for the difference alone', function () {
    this.timeout(5_000)
    const patterns = Array.from({ length: 2_000 }, (_, index) => `s${index % 20}/t${index}*`)
    for (const isFolded of [false, true]) {
      const search = {
        inside: [{ patterns: [...patterns, 's1/zz'], isFolded }],
        outside: [{ patterns, isFolded }],
      }
      expect(findReference(search)).to.equal('mcp://s1/zz@x')
      expect(findReference({ inside: search.outside, outside: search.inside })).to.equal(undefined)
    }
  })

  it('says that it cannot tell if a fold depends on neighbours', () => {
    expect(() => findReference({ inside: [deny('e\u0300\u0301x')], outside: [] })).to.throw(
      NotComparableError,
    )
  })

  it('says so too if a pattern has a version that only another reading of a name can have', () => {
    expect(() => findReference({ inside: [allow('files/drop@1%402')], outside: [] })).to.throw(
      NotComparableError,
    )
  })

  const name = fc.string({ unit: fc.constantFrom('a', 'b', 'A', '.', '*', '*'), minLength: 1, maxLength: 4 })
  const pattern = fc
    .oneof(
      name,
      fc.tuple(name, name).map(([server, tool]) => `${server}/${tool}`),
      fc.tuple(name, name).map(([server, tool]) => `mcp://${server}/${tool}@*`),
      fc.tuple(name, fc.constantFrom('1', 'a*', '*.')).map(([tool, version]) => `${tool}@${version}`),
    )
    .filter((source) => {
      try {
        compilePatternSet([source])
        return true
      } catch {
        return false
      }
    })
  const list = fc.record({
    patterns: fc.array(pattern, { minLength: 1, maxLength: 3 }),
    isFolded: fc.boolean(),
  })

  /** Names and versions over characters that fold to literals of the patterns, to nothing, or to themselves. */
  const characters = ['a', 'A', 'ａ', 'b', 'B', '.', 'x', '\u200b']
  const names = [
    ...characters,
    ...characters.flatMap((one) => characters.map((two) => one + two)),
    'a.b',
    'axb',
    'ba.',
    'AbA',
  ]
  const universe = ['a', 'A', 'x'].flatMap((server) =>
    names
      .filter((tool) => !/^[.\u200b]+$/.test(tool))
      .flatMap((tool) => ['1', 'a', 'x', '1.'].map((version) => `mcp://${server}/${tool}@${version}`)),
  )

  it('finds one exactly if there is one, for any lists', () => {
    fc.assert(
      fc.property(
        fc.array(list, { minLength: 1, maxLength: 2 }),
        fc.array(list, { maxLength: 3 }),
        (inside, outside) => {
          const found = findReference({ inside, outside })
          const isWanted = (reference: string) =>
            inside.every((one) => isIn(one, reference)) && !outside.some((one) => isIn(one, reference))
          if (found !== undefined) expect(isWanted(found), found).to.equal(true)
          else {
            const sets = [...inside, ...outside].map((one) => ({
              ...one,
              set: compilePatternSet(one.patterns),
            }))
            const missed = universe.find((reference) => {
              const bits = sets.map(({ set, isFolded }) =>
                isFolded ? set.findReading([reference]) !== undefined : set.matches(reference),
              )
              return bits.slice(0, inside.length).every(Boolean) && !bits.slice(inside.length).some(Boolean)
            })
            expect(missed).to.equal(undefined)
          }
        },
      ),
      { numRuns: propertyRuns(80), seed: 26 },
    )
  })
})
