// biome-ignore-all lint/suspicious/noTemplateCurlyInString: what policies write
import { expect } from 'chai'
import fc from 'fast-check'
import { load, loadHostOf, mistakesIn } from './policies.js'

const base = 'tenant: acme\naudit: {dir: log}\n'

describe('the text of a policy', () => {
  it('is YAML 1.2 in spite of a directive', () => {
    expect(mistakesIn('%YAML 1.1\n---\ntenant: acme\naudit: {dir: log, fsync: yes}\n')).to.deep.equal([
      'p.yaml:4:19 audit.fsync: a string is given; accepted is true or false',
    ])
  })

  it('may contain explicit tags of the core schema', () => {
    expect(mistakesIn(`tenant: !!str 7\naudit: !!map {dir: log}\n`)).to.deep.equal([])
  })

  for (const tag of ['!mine', '!!binary', '!!set', '!!omap', '!!timestamp']) {
    it(`may not contain the tag ${tag}`, () => {
      const mistakes = mistakesIn(`tenant: acme\naudit: {dir: ${tag} x}\n`)
      expect(mistakes).to.have.length(1)
      expect(mistakes[0]).to.match(/^p\.yaml:2:14 the tag \S+ is not read; accepted are /)
    })
  }

  it('is validated further after a duplicate key', () => {
    expect(mistakesIn('tenant: acme\ntenant: other\naudit: {dir: 4}\n')).to.deep.equal([
      'p.yaml:2:1 the key "tenant" is given twice; give it once',
      'p.yaml:3:9 audit.dir: 4 is given; accepted is a string that is not empty',
    ])
  })

  it('uses the text of numbers and words as keys of a map', () => {
    expect(
      mistakesIn(`${base}limits: {per_tool: {1: {calls_per_day: x}, true: {calls_per_day: x}}}`),
    ).to.deep.equal([
      'p.yaml:3:25 limits.per_tool.1.calls_per_day: a string is given; accepted is a whole number of at least 0',
      'p.yaml:3:51 limits.per_tool.true.calls_per_day: a string is given; accepted is a whole number of at least 0',
    ])
  })

  it('keeps names of inherited properties in a map', () => {
    const names = ['constructor', 'toString', 'hasOwnProperty', 'prototype']
    for (const name of names) {
      expect(mistakesIn(`${base}limits: {per_tool: {${name}: {calls_per_day: 1}}}`), name).to.deep.equal([])
    }
  })

  it('reports mistakes in an alias at its place of use', () => {
    const text = `${base}limits: {per_tool: {a: &limit {calls_per_day: 1}, b: *limit}, mode: &m nothing}\n`
    expect(mistakesIn(text)).to.deep.equal([
      'p.yaml:3:63 limits.mode: "nothing" is given; accepted is observe or enforce',
    ])
  })

  it('never makes the loader throw', () => {
    const fragment = fc.constantFrom(
      ...['tenant', 'audit', 'limits', 'per_tool', 'pipeline', 'plugins', 'use', ': ', ':\n  ', '\n', '\n- '],
      ...[
        '{',
        '}',
        '[',
        ']',
        ', ',
        '"',
        "'",
        '|',
        '>',
        '&a ',
        '*a',
        '!x ',
        '!!binary ',
        '<<',
        '---\n',
        '...\n',
      ],
      ...[
        '${env:X}',
        '${env:',
        '}',
        '\t',
        '%YAML 1.1\n',
        '? ',
        '# c\n',
        '1e999',
        '0x1f',
        '-.inf',
        '~',
        '__proto__',
      ],
      ...['\u0000', '\ud800', '\ufeff', 'é', 'constructor', '1.2.3', 'null', 'true'],
    )
    const text = fc.oneof(
      fc.array(fragment, { maxLength: 40 }).map((parts) => parts.join('')),
      fc.array(fragment, { maxLength: 20 }).map((parts) => `${base}${parts.join('')}`),
      fc.string({ unit: 'binary', maxLength: 80 }),
    )
    fc.assert(
      fc.property(text, fc.boolean(), (policy, isWhole) => {
        const result = (isWhole ? load : loadHostOf)(policy, { env: { X: 'x' } })
        if (result.ok) return
        expect(result.mistakes).to.have.length.above(0)
        for (const { line, column, message } of result.mistakes) {
          expect(line).to.be.a('number').above(0)
          expect(column).to.be.a('number').above(0)
          expect(message).to.not.equal('')
        }
      }),
      { numRuns: 500 },
    )
  })

  it('may be nested deeper than the stack allows', () => {
    for (const depth of [100, 10_000]) {
      expect(mistakesIn(`tenant: ${'['.repeat(depth)}${']'.repeat(depth)}`).join('\n')).to.match(
        /nested too deeply/,
      )
    }
  })

  it('is refused at once if it is too large', () => {
    const rules = Array.from({ length: 100_000 }, (_, at) => `  - { name: r${at}, then: deny }\n`).join('')
    const [mistake = ''] = mistakesIn(`rules:\n${rules}`)
    expect(mistake).to.match(/too large: [\d.]+ MiB; at most 2 MiB/)
  })
})
