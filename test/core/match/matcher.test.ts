import { compilePattern, compilePatternSet, formatReference, PatternError } from '@svc/core/match'
import { expect } from 'chai'
import fc from 'fast-check'
import { propertyRuns } from '../../support/property-runs.js'
import { cases, free, isReference, isValid, naive, near, reference } from './naive.js'

describe('a pattern set', () => {
  it('matches what a naive implementation matches', () => {
    fc.assert(
      fc.property(cases, ({ references, patterns }) => {
        const set = compilePatternSet(patterns)
        for (const parts of references)
          expect(set.matches(formatReference(parts)), `${patterns} ${formatReference(parts)}`).to.equal(
            patterns.some((pattern) => naive(pattern, parts)),
          )
      }),
      { numRuns: propertyRuns(1000) },
    )
  })

  it('may match every server with a matching reference, and covers none with a reference that does not match', () => {
    fc.assert(
      fc.property(cases, ({ references, patterns }) => {
        const set = compilePatternSet(patterns)
        for (const parts of references) {
          const reference = formatReference(parts)
          if (set.matches(reference)) expect(set.mayMatchServer(parts.server)).to.equal(true)
          if (set.findReading([reference]) === undefined)
            expect(set.coversServer(parts.server)).to.equal(false)
        }
      }),
      { numRuns: propertyRuns(500) },
    )
  })

  for (const [pattern, yes, no] of [
    ['mcp://s/t@1', ['mcp://s/t@1'], ['mcp://s/t@10', 'mcp://S/t@1', 'mcp://s/T@1']],
    ['s/t@1', ['mcp://s/t@1'], ['mcp://x/t@1', 'mcp://s/t@2']],
    ['s/t', ['mcp://s/t@1', 'mcp://s/t@unversioned'], ['mcp://s/tt@1', 'mcp://x/t@1']],
    ['t@1', ['mcp://s/t@1', 'mcp://x/t@1'], ['mcp://s/t@2', 'mcp://s/prompts/t@1']],
    ['t', ['mcp://s/t@1', 'mcp://x/t@2'], ['mcp://s/at@1', 'mcp://s/resources/t@1']],
    ['*', ['mcp://s/t@1', 'mcp://s/prompts/x@1'], []],
    ['s/*', ['mcp://s/t@1', 'mcp://s/resources/a%2Fb@1'], ['mcp://ss/t@1']],
    ['get_*', ['mcp://s/get_x@1'], ['mcp://s/xget_@1', 'mcp://s/prompts/get_x@1']],
    ['*s/x', ['mcp://as/x@1'], ['mcp://a/prompts/x@1']],
    ['mcp://*/x@*', ['mcp://s/x@1', 'mcp://s/prompts/x@1'], ['mcp://s/xx@1']],
    ['t@1.*', ['mcp://s/t@1.2'], ['mcp://s/t@1', 'mcp://s/t@2.1.3']],
    [
      's/resources/file:///docs/*',
      ['mcp://s/resources/file:%2F%2F%2Fdocs%2Fa@1'],
      ['mcp://s/resources/file:%2F%2F%2Fetc@1'],
    ],
    ['s/*F*', ['mcp://s/aFb@1'], ['mcp://s/a%2Fb@1']],
    ['e\u0301', ['mcp://s/é@1'], ['mcp://s/e@1']],
    ['%C3%A9', ['mcp://s/é@1'], []],
    ['a%2A', ['mcp://s/a*@1'], ['mcp://s/ab@1']],
    ['a.c', ['mcp://s/a.c@1'], ['mcp://s/abc@1']],
  ] as const)
    it(`reads ${pattern}`, () => {
      const set = compilePatternSet([pattern])
      for (const text of yes) expect(set.matches(text), text).to.equal(true)
      for (const text of no) expect(set.matches(text), text).to.equal(false)
    })

  for (const [pattern, may, covers] of [
    ['*', true, true],
    ['mcp://*', true, true],
    ['srv/*', true, true],
    ['srv/*@*', true, true],
    ['mcp://srv*', true, true],
    ['mcp://*/*@*', true, true],
    ['s*/*', true, true],
    ['srv/*@1', true, false],
    ['srv/a*', true, false],
    ['t', true, false],
    ['mcp://srv/t@1', true, false],
    ['other/*', false, false],
    ['mcp://srvx*', false, false],
    ['mcp://s*z/t@1', false, false],
    ['mcp://s*/resources/a@1', true, false],
    ['mcp://*x@1', true, false],
    ['x*/*', false, false],
  ] as const)
    it(`says that ${pattern} ${may ? 'may match' : 'cannot match'} and ${covers ? 'covers' : 'does not cover'} srv`, () => {
      const set = compilePatternSet([pattern])
      expect(set.mayMatchServer('srv')).to.equal(may)
      expect(set.mayMatchServer('srv'), 'asked again').to.equal(may)
      expect(set.coversServer('srv')).to.equal(covers)
    })

  it('accepts servers by their decoded names', () => {
    const set = compilePatternSet(['a%2Fb%40/*'])
    expect(set.coversServer('a/b@')).to.equal(true)
    expect(set.mayMatchServer('a')).to.equal(false)
  })

  it('matches nothing when it is empty', () => {
    const set = compilePatternSet([])
    expect(set.matches('mcp://s/t@1')).to.equal(false)
    expect(set.mayMatchServer('s')).to.equal(false)
    expect(set.coversServer('s')).to.equal(false)
  })

  it('refuses a reference that is not canonical', () => {
    const set = compilePatternSet(['*'])
    for (const text of [
      's/t@1',
      'mcp://s',
      'mcp://s/',
      'mcp://s/t',
      'mcp:///t@1',
      'mcp://s/%74@1',
      'mcp://s/a%2f@1',
    ])
      expect(() => set.matches(text), text).to.throw(/reference/)
  })

  for (const [pattern, code] of [
    ['', 'empty'],
    ['s/', 'empty_name'],
    ['/t', 'empty_name'],
    ['t@', 'empty_name'],
    ['@1', 'empty_name'],
    ['mcp://', 'empty_name'],
    ['s//t', 'empty_name'],
    ['s/resources/', 'empty_name'],
    ['s/..', 'dot_name'],
    ['%2e%2E', 'dot_name'],
    ['a\0', 'control_character'],
    ['a%00', 'control_character'],
    ['a%', 'malformed_encoding'],
    ['a%2', 'malformed_encoding'],
    ['%zz', 'malformed_encoding'],
    ['%C3*%A9', 'malformed_encoding'],
    ['%C0%AF', 'malformed_encoding'],
    ['\ud800', 'malformed_unicode'],
    ['s@1/t', 'ambiguous_at'],
    ['a@1@2', 'ambiguous_at'],
    ['mcp://s/t', 'matches_nothing'],
    ['mcp://s', 'matches_nothing'],
    ['mcp://s*/t', 'matches_nothing'],
    ['s/a/b', 'matches_nothing'],
    ['mcp://*/a/b/c@1', 'matches_nothing'],
    ['s/resources/https://A.example/*', 'not_normal_uri'],
    ['s/resources/HTTPS://a.example/*', 'not_normal_uri'],
    ['s/resources/https://a.example:443/*', 'not_normal_uri'],
    ['s/resources/https://u%40a.example/*', 'not_normal_uri'],
    ['s/resources/file:///srv/../etc/*', 'not_normal_uri'],
    ['s/resources/demo://a/100%25', 'not_normal_uri'],
    ['mcp://s/resources/FILE:%2F%2F%2Fsrv@*', 'not_normal_uri'],
    ['a'.repeat(25_001), 'too_long'],
  ] as const)
    it(`refuses ${JSON.stringify(pattern.slice(0, 40))} as ${code}`, () => {
      expect(() => compilePatternSet(['ok', pattern]))
        .to.throw(PatternError)
        .with.property('code', code)
    })

  it('refuses a whole pattern only when no reference can match', () => {
    fc.assert(
      fc.property(fc.oneof(free, reference.chain(near)), reference, (pattern, parts) => {
        fc.pre(!isValid(pattern) && !/[@].*[@]/.test(pattern))
        expect(naive(pattern, parts), pattern).to.equal(false)
      }),
      { numRuns: propertyRuns(500) },
    )
  })

  it('refuses no pattern that a URI matches', () => {
    const uri = fc.constantFrom(
      'https://a.example/b',
      'https://a.example:8443/b/',
      'file:///srv/a b',
      'file:///',
      'demo://Box/100%2541',
      'demo://box/{id}?q={q}',
      'urn:a:b',
      'a/b',
      'https://a.example/é?x=%26#',
    )
    const cut = uri
      .map((resource) => ({ server: 's', resource, version: '1' }))
      .filter(isReference)
      .chain((parts) => near(parts).map((pattern) => ({ parts, pattern })))
    fc.assert(
      fc.property(cut, ({ parts, pattern }) => {
        fc.pre(naive(pattern, parts))
        compilePattern(pattern)
      }),
      { numRuns: 5000 },
    )
  })

  it('is fast on text that is slow for a backtracking matcher', () => {
    const set = compilePatternSet([`${'*a'.repeat(200)}*b`, `*${'a'.repeat(100)}b*`])
    const text = formatReference({ server: 's', tool: 'a'.repeat(4096), version: '1' })
    expect(set.matches(text)).to.equal(false)
  })
})
