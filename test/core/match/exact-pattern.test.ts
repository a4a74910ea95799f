import {
  compilePatternSet,
  exactPattern,
  foldReference,
  formatReference,
  pathReadings,
  ReferenceInputError,
} from '@svc/core/match'
import { expect } from 'chai'
import fc from 'fast-check'
import { propertyRuns } from '../../support/property-runs.js'

/** What patterns, references, URLs and folds give a meaning, in names that programs may take for each other. */
const pieces = [
  ...['a', 'A', 'ａ', 'b', '*', '**', '%', '%2', '/', '@', '＠', '％', '＊', '\\', '.', '..', ' ', '\u200b'],
  ...[
    'prompts',
    'prompts/',
    'resources/',
    'mcp:',
    'mcp://',
    '?',
    '#',
    ':',
    '~',
    '+',
    '"',
    'é',
    '😀',
    '1.0.0',
  ],
]
const name = fc.array(fc.constantFrom(...pieces), { minLength: 1, maxLength: 4 }).map((some) => some.join(''))
const tool = fc.record({ server: fc.oneof(fc.constant('srv'), name), tool: name }).filter(isLegal)

function isLegal(parts: { readonly server: string; readonly tool: string }): boolean {
  try {
    formatReference({ ...parts, version: '1' })
    pathReadings({ ...parts, version: '1' })
    return true
  } catch (error) {
    if (error instanceof ReferenceInputError) return false
    throw error
  }
}

describe('the exact pattern of a tool', () => {
  const versions = ['1', '2.0.0', 'unversioned']

  it('matches each version of the tool and, of other names, those with its fold, whatever characters they have', () => {
    fc.assert(
      fc.property(tool, fc.array(tool, { minLength: 1, maxLength: 8 }), (off, others) => {
        const set = compilePatternSet([exactPattern(off)])
        for (const parts of [off, ...others])
          for (const version of versions) {
            const reference = formatReference({ ...parts, version })
            const own = formatReference({ ...off, version })
            expect(set.matches(reference), reference).to.equal(reference === own)
            const isSame = foldReference(reference) === foldReference(own)
            expect(set.findReading([reference]) !== undefined, reference).to.equal(isSame)
          }
        for (const kind of ['prompt', 'resource'] as const) {
          const parts = { server: off.server, version: '1', [kind]: `x:${off.tool}` }
          expect(() => set.findReading([formatReference(parts as never)])).to.satisfy(neverMatches)
        }
      }),
      { seed: 628, numRuns: propertyRuns(1500) },
    )
  })

  for (const sign of ['@', '*', '%', 'é'])
    it(`is one for the longest name of ${sign}`, () => {
      const longest = { server: sign.repeat(4096), tool: sign.repeat(4096) }
      const reference = formatReference({ ...longest, version: '1' })
      expect(compilePatternSet([exactPattern(longest)]).matches(reference)).to.equal(true)
    })
})

/** A URI that no reference can have is matched by nothing. */
function neverMatches(find: () => string | undefined): boolean {
  try {
    return find() === undefined
  } catch (error) {
    return error instanceof ReferenceInputError
  }
}
