// Hostile input must cost linear time. The tests count scanned characters, because times vary; as counts are exact, a
// quarter of the largest body shows what the largest one costs.
import type { JsonValue } from '@svc/core/json'
import { checkContent, contentRules, type ScanCounter, securityPlugin } from '@svc/plugin-security'
import { expect } from 'chai'
import fc from 'fast-check'
import { propertyRuns } from '../../support/property-runs.js'

const LENGTH = 2 ** 18

/** Scans per character. */
const MAX_SCANS = 24

const rules = contentRules(
  securityPlugin.schema.parse({
    egress_allowlist: ['*.example.com', 'good.com', '8.8.8.8'],
    fs_allowlist: ['/**/a/**/b/**/*a*a*'],
    fs_root: '/srv',
  }),
)

function scansFor(args: JsonValue): number {
  const counter: ScanCounter = { characters: 0 }
  checkContent({ kind: 'tool', args }, rules, counter)
  return counter.characters
}

/** A string of one MiB. */
const long = (piece: string, before = '', after = '') => before + piece.repeat(LENGTH / piece.length) + after

const single: Record<string, string> = {
  'plain letters': long('a'),
  spaces: long(' ', '', 'http://evil.com'),
  tabs: long('\t', 'h', 'ttp://evil.com'),
  'tabs between all letters': long('h\t'),
  slashes: long('/'),
  backslashes: long('\\', 'http:'),
  'one host': long('a', 'http://'),
  'host labels': long('a.', 'http://'),
  'letters that are slow in punycode': long('中文', 'http://'),
  'combining marks': `${'\u0301'.repeat(LENGTH / 2)}${'\u0323'.repeat(LENGTH / 2)}`,
  'marks in a host': `http://a${'\u0301'.repeat(LENGTH / 2)}${'\u0323'.repeat(LENGTH / 2)}`,
  escapes: long('%25', 'http'),
  'nested escapes': long('%2525'),
  'user names': long('a@', 'http://'),
  schemes: long('a:'),
  'one scheme': long('a+'),
  'path segments': long('/..'),
  'Windows path segments': long('..\\', 'C:\\'),
  'stars and letters': long('*a', '/'),
}

/** Repeated as separate strings up to one MiB. */
const many: Record<string, string> = {
  'short URLs': 'http://a',
  'URLs that do not parse': 'http://[',
  'hosts of the maximum length': `http://${'a.'.repeat(250)}com`,
  'hosts that are slow in punycode': `http://${'中文'.repeat(250)}`,
  'hosts of marks': `http://a${'\u0301'.repeat(250)}${'\u0323'.repeat(250)}`,
  'escapes of hosts': `http%253A%252F%252F${'%2561'.repeat(90)}`,
  'user names of the maximum length': `http://${'a'.repeat(1990)}@b`,
  'paths up and down': `/${'a/../'.repeat(50)}`,
}

describe('security: cost of hostile arguments', () => {
  for (const [name, text] of Object.entries(single)) {
    it(`of ${name} is linear`, () => {
      for (const args of [{ q: text }, { url: text }, { path: text }, { url: { [text]: 'x' } }]) {
        const whole = scansFor(args)
        expect(whole).to.be.at.most(MAX_SCANS * text.length)
      }
    })
  }

  for (const [name, text] of Object.entries(many)) {
    it(`of ${name} is linear`, () => {
      const strings = new Array<string>(Math.floor(LENGTH / text.length)).fill(text)
      for (const args of [{ q: strings }, { url: strings }, { path: strings }]) {
        const whole = scansFor(args)
        expect(whole).to.be.at.most(MAX_SCANS * LENGTH)
        const half = scansFor(
          Object.fromEntries(Object.entries(args).map(([k, v]) => [k, v.slice(v.length / 2)])),
        )
        expect(whole).to.be.at.most(2.1 * half + 1000)
      }
    })
  }

  describe('in many strings', () => {
    let checks = 0
    const counting = rules.map(({ reason, key, rule }) => ({
      reason,
      key,
      rule: {
        sources: rule.sources,
        violation(...given: Parameters<typeof rule.violation>) {
          checks++
          return rule.violation(...given)
        },
      },
    }))
    const millions: Record<string, readonly [key: string, item: (index: number) => string]> = {
      'words below a key of URLs and paths': ['url_path', (index) => index.toString(36)],
      'words below another key': ['q', (index) => index.toString(36)],
      'escapes below another key': ['q', () => '%61'],
      'allowed URLs below another key': ['q', () => 'http://good.com'],
    }
    for (const [name, [key, item]] of Object.entries(millions)) {
      it(`is limited: ${name}`, () => {
        checks = 0
        const args = { [key]: Array.from({ length: 1_000_000 }, (_, index) => item(index)) }
        const findings = checkContent({ kind: 'tool', args }, counting)
        expect(checks).to.be.at.most(40_000)
        const isPlain = name === 'words below another key'
        expect(findings.some(({ detail }) => detail?.includes('too many strings') === true)).to.equal(
          !isPlain,
        )
      })
    }

    it('is as strict for words that are not checked', () => {
      const piece = fc.constantFrom(
        'a',
        'Z',
        '0',
        ' ',
        ':',
        '/',
        '\\',
        '.',
        '~',
        '%2f',
        '%',
        '\t',
        '\u00e9',
        '\uff0f',
        '\uff23',
        '\uff1a',
        '\u2488',
        '-',
        'file',
        'http',
      )
      fc.assert(
        fc.property(fc.array(piece, { maxLength: 6 }), (pieces) => {
          const text = pieces.join('')
          const expected = rules.some(({ rule }) => rule.violation(text, 0, { characters: 0 }) !== undefined)
          expect(checkContent({ kind: 'tool', args: { q: text } }, rules).length > 0).to.equal(expected)
        }),
        { numRuns: propertyRuns(2_000) },
      )
    })
  })

  it('checks arguments of the maximum depth', () => {
    let args: JsonValue = 'http://evil.com'
    for (let depth = 0; depth < 510; depth++) args = depth % 2 === 0 ? [args] : { url: args }
    expect(checkContent({ kind: 'tool', args }, rules)).to.have.lengthOf(1)
  })

  it('limits the number and length of findings for wide hostile arguments', () => {
    const args = Object.fromEntries(
      Array.from({ length: 5000 }, (_, i) => [`${i}${'k'.repeat(200)}`, `http://${'e'.repeat(200)}.com`]),
    )
    const findings = checkContent({ kind: 'tool', args: [[args]] }, rules)
    expect(JSON.stringify(findings).length).to.be.at.most(20_000)
  })
})
