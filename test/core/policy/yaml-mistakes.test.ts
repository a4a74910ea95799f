// One keystroke makes a policy a text that is not YAML: the message is one, names the place, and shows it.
import { readdirSync, readFileSync } from 'node:fs'
import { type Diagnostic, describeDiagnostic, readDocument } from '@svc/core/policy'
import { expect } from 'chai'
import fc from 'fast-check'
import { z } from 'zod'
import { propertyRuns } from '../../support/property-runs.js'

const folder = new URL('../../../fixtures/policies/valid/', import.meta.url)
const texts = readdirSync(folder)
  .filter((name) => name.endsWith('.yaml'))
  .map((name) => readFileSync(new URL(name, folder), 'utf8'))

const mistakesOf = (text: string): readonly Diagnostic[] =>
  readDocument(text, 'p.yaml', z.unknown(), {}).mistakes

type Change = (line: string) => string
const changes: Readonly<Record<string, Change>> = {
  'no space after a colon': (line) => line.replace(/: (?=\S)/, ':'),
  'a tab as indentation': (line) => line.replace(/^ +/, '\t'),
  'a tab in the indentation': (line) => line.replace(/^( +)/, '$1\t'),
  'one space more': (line) => ` ${line}`,
  'one space less': (line) => line.replace(/^ /, ''),
  'a double quote that is not closed': (line) => line.replace(/: (?=\w)/, ': "'),
  'a single quote that is not closed': (line) => line.replace(/: (?=\w)/, ": '"),
  'a bracket that is not closed': (line) => line.replace(/[\]}]$/, ''),
  'a bracket that is not opened': (line) => line.replace(/: [[{] ?/, ': '),
  'no colon': (line) => line.replace(/:(?= |$)/, ''),
  'no space after a dash': (line) => line.replace(/- /, '-'),
  'two keys in one line': (line) => line.replace(/: (?=\w)/, ': key: '),
  'a reserved character': (line) => line.replace(/: (?=\w)/, ': @'),
}
/** What a parser says of itself, which helps no author. */
const jargon = /implicit|compact|block |flow |scalar|token|node end|plain value|undefined/i
const indentOf = (line = ''): number => line.search(/\S|$/)

describe('a text that one keystroke keeps from being YAML', () => {
  for (const [title, change] of Object.entries(changes)) {
    it(`has one mistake with its line and a caret: ${title}`, () => {
      let wrong = 0
      fc.assert(
        fc.property(fc.constantFrom(...placesOf(change)), ({ lines, index, changed }) => {
          const all = lines.with(index, changed)
          const mistakes = mistakesOf(all.join('\n'))
          // Most other changes are YAML: their mistakes are of the policy.
          if (!mistakes.some(({ message }) => message.startsWith('not valid YAML'))) return
          wrong++
          expect(mistakes).to.have.length(1)
          const { line = 0, column = 0, message, excerpt = '' } = mistakes[0]!
          expect(message.replace(/"[^"]*"/, '')).to.not.match(jargon)
          expect(isNear(all, index, line - 1), `${index + 1} is changed: ${message}\n${excerpt}`).to.equal(
            true,
          )
          const [shown = '', caret = ''] = excerpt.split('\n')
          const from = shown.indexOf('| ') + 2
          if (column <= 80) expect(caret.indexOf('^')).to.equal(from + column - 1)
          const source = (all[line - 1] ?? '').replaceAll('\t', '\u2192')
          if (source.length <= 80 && !shown.includes('*')) expect(shown.slice(from)).to.equal(source)
        }),
        { numRuns: propertyRuns(60), seed: 1 },
      )
      expect(wrong).to.be.above(0)
    })
  }

  function placesOf(change: Change) {
    return texts.flatMap((text) => {
      const lines = text.split('\n')
      return lines.flatMap((line, index) => {
        const changed = change(line)
        return changed === line || changed.trim() === '' ? [] : { lines, index, changed }
      })
    })
  }

  /** The changed line, or the next or last one whose place beside it is wrong by the change. */
  function isNear(lines: readonly string[], changed: number, named: number): boolean {
    const [from, to] = [Math.min(changed, named), Math.max(changed, named)]
    const between = lines.slice(from + 1, to).filter((line) => /^\s*[^#\s]/.test(line))
    return between.every((line) => indentOf(line) >= Math.min(indentOf(lines[from]), indentOf(lines[to])))
  }

  for (const [title, text, expected] of [
    [
      'a tab',
      'tenant: acme\ntargets:\n\tfiles: http://x\n\tmail: http://y\nport: 0\n',
      'p.yaml:3:1 not valid YAML: a tab indents this line; YAML takes spaces\n  3 | \u2192files: http://x\n    | ^',
    ],
    [
      'a wrong indent',
      'targets:\n  files: http://x\n   mail: http://y\n  other: http://z\n',
      'p.yaml:3:4 not valid YAML: this line is indented deeper, and the line before it has a value already\n' +
        '  3 |    mail: http://y\n    |    ^',
    ],
    [
      'no space after a colon',
      'tenant:acme\nport: 0\ntargets: {}\n',
      'p.yaml:1:8 not valid YAML: there is no space after the colon of "tenant"\n  1 | tenant:acme\n    |        ^',
    ],
    [
      'a star without quotes',
      'tenant: acme\ntools: [*]\nport: 0\n',
      'p.yaml:2:9 not valid YAML: a text that begins with * needs quotes\n  2 | tools: [*]\n    |         ^',
    ],
    [
      'secrets in the line',
      '- token: "abcdef\n- a: redis://u:hunter2@h "x\n',
      'p.yaml:1:10 not valid YAML: the quote that opens here is not closed\n  1 | - token: "******\n    |          ^',
    ],
  ] as const) {
    it(`is shown for ${title}`, () => {
      expect(mistakesOf(text).map(describeDiagnostic)).to.deep.equal([expected])
    })
  }

  it('is shown without what may be a secret', () => {
    const secrets = ['hunter2', 'sk_live_abcdef1234567890abcd']
    const written = [
      `url: "redis://u:${secrets[0]}@h`,
      `value: "${secrets[1]}`,
      `password: ${secrets[0]} @: x`,
    ]
    for (const line of written) {
      const [{ excerpt = '' } = { excerpt: '' }] = mistakesOf(`${line}\n`)
      expect(excerpt, line).to.match(/\*{7}/)
      for (const secret of secrets) expect(excerpt).to.not.include(secret)
    }
  })

  it('is shown around a place far to the right', () => {
    const text = `tenant: "${'é'.repeat(200)}" @ "\n`
    const [shown = '', caret = ''] = mistakesOf(text)[0]?.excerpt?.split('\n') ?? []
    expect(shown.length).to.be.below(100)
    expect(shown.charAt(caret.indexOf('^'))).to.equal('@')
  })
})
