import { compilePattern, compilePatternMap, formatReference, parseReference } from '@svc/core/match'
import { expect } from 'chai'
import fc from 'fast-check'
import { propertyRuns } from '../../support/property-runs.js'
import { cases, naive } from './naive.js'

describe('a pattern map', () => {
  it('returns all matches, most literal characters first, equals in the given order', () => {
    fc.assert(
      fc.property(cases, ({ references, patterns }) => {
        const unique = [...new Set(patterns)].filter((pattern) => !/^\d+$/.test(pattern))
        const map = compilePatternMap(Object.fromEntries(unique.map((pattern, i) => [pattern, i])))
        for (const parts of references) {
          const [found] = map.lookup([formatReference(parts)])
          const expected = unique
            .map((pattern, value) => ({ pattern, value, literals: compilePattern(pattern).literals }))
            .filter(({ pattern }) => naive(pattern, parts))
            .sort((a, b) => b.literals - a.literals)
          expect(found).to.deep.equal(expected)
        }
      }),
      { numRuns: propertyRuns(500) },
    )
  })

  it('counts literal characters equally in both spellings of a pattern, an escaped one once', () => {
    expect(compilePattern('s/t').literals).to.equal(compilePattern('mcp://s/t@*').literals)
    expect(compilePattern('a%2Fb').literals).to.equal(compilePattern('axb').literals)
    expect(compilePattern('s/t@1').literals).to.be.greaterThan(compilePattern('s/t').literals)
    expect(compilePattern('s/t').literals).to.be.greaterThan(compilePattern('s/*').literals)
  })

  it('finds one of ten thousand', () => {
    const shapes = (i: number) => [
      `s${i}/t${i}@1`,
      `s${i}/u${i}`,
      `v${i}`,
      `*_${i}_*`,
      `s${i}/w${i}*`,
      `x*y${i}`,
    ]
    const patterns = Object.fromEntries(
      Array.from({ length: 1700 }, (_, i) => shapes(i))
        .flat()
        .map((pattern) => [pattern, pattern]),
    )
    const map = compilePatternMap(patterns)
    const only = (text: string) =>
      map.lookup([formatReference(parseReference(text))])[0]?.map(({ value }) => value)
    expect(only('mcp://s77/t77@1')).to.deep.equal(['s77/t77@1'])
    expect(only('mcp://s77/u77@9')).to.deep.equal(['s77/u77'])
    expect(only('mcp://q/v1699@9')).to.deep.equal(['v1699'])
    expect(only('mcp://q/a_12_b@9')).to.deep.equal(['*_12_*'])
    expect(only('mcp://s5/w5abc@9')).to.deep.equal(['s5/w5*'])
    expect(only('mcp://q/x-y123@9')).to.deep.equal(['x*y123'])
    expect(only('mcp://q/nothing@9')).to.deep.equal([])
  })
})
