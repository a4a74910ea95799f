// Hostile input costs linear time. Counted in characters looked at, not in milliseconds: a count does not flake.
import type { JsonValue } from '@svc/core/json'
import { contentRules, type Effort, judgeContent, securityPlugin } from '@svc/plugin-security'
import { expect } from 'chai'

const MIB = 2 ** 20

/** How often a character may be looked at. */
const LIMIT = 24

const rules = contentRules(
  securityPlugin.schema.parse({
    egress_allowlist: ['*.example.com', 'good.com', '8.8.8.8'],
    fs_allowlist: ['/**/a/**/b/**/*a*a*'],
    fs_root: '/srv',
  }),
)

function stepsFor(args: JsonValue): number {
  const effort: Effort = { steps: 0 }
  judgeContent({ kind: 'tool', args }, rules, effort)
  return effort.steps
}

/** One string of so many characters made of a piece. */
const long = (piece: string, before = '', after = '') => before + piece.repeat(MIB / piece.length) + after

const single: Record<string, string> = {
  'plain letters': long('a'),
  spaces: long(' ', '', 'http://evil.com'),
  tabs: long('\t', 'h', 'ttp://evil.com'),
  'tabs between all letters': long('h\t'),
  slashes: long('/'),
  backslashes: long('\\', 'http:'),
  'a host without an end': long('a', 'http://'),
  'labels without an end': long('a.', 'http://'),
  'letters that punycode takes long for': long('中文', 'http://'),
  'combining marks': `${'\u0301'.repeat(MIB / 2)}${'\u0323'.repeat(MIB / 2)}`,
  'marks in a host': `http://a${'\u0301'.repeat(MIB / 2)}${'\u0323'.repeat(MIB / 2)}`,
  escapes: long('%25', 'http'),
  'escapes of escapes': long('%2525'),
  'user after user': long('a@', 'http://'),
  'scheme after scheme': long('a:'),
  'a scheme without an end': long('a+'),
  'path segments': long('/..'),
  'path segments of another kind': long('..\\', 'C:\\'),
  'stars and letters': long('*a', '/'),
}

/** As many strings as a mebibyte holds. */
const many: Record<string, string> = {
  'short URLs': 'http://a',
  'URLs that do not parse': 'http://[',
  'hosts that are as long as may be': `http://${'a.'.repeat(250)}com`,
  'hosts that punycode takes long for': `http://${'中文'.repeat(250)}`,
  'hosts of marks': `http://a${'\u0301'.repeat(250)}${'\u0323'.repeat(250)}`,
  'escapes of hosts': `http%253A%252F%252F${'%2561'.repeat(90)}`,
  'users as long as may be': `http://${'a'.repeat(1990)}@b`,
  'paths up and down': `/${'a/../'.repeat(50)}`,
}

describe('security: cost of hostile arguments', () => {
  for (const [name, text] of Object.entries(single)) {
    it(`of a mebibyte of ${name} is linear`, () => {
      for (const args of [{ q: text }, { url: text }, { path: text }, { url: { [text]: 'x' } }]) {
        const whole = stepsFor(args)
        expect(whole).to.be.at.most(LIMIT * text.length)
      }
    })
  }

  for (const [name, text] of Object.entries(many)) {
    it(`of a mebibyte of ${name} is linear`, () => {
      const strings = new Array<string>(Math.floor(MIB / text.length)).fill(text)
      for (const args of [{ q: strings }, { url: strings }, { path: strings }]) {
        const whole = stepsFor(args)
        expect(whole).to.be.at.most(LIMIT * MIB)
        const half = stepsFor(
          Object.fromEntries(Object.entries(args).map(([k, v]) => [k, v.slice(v.length / 2)])),
        )
        expect(whole).to.be.at.most(2.1 * half + 1000)
      }
    })
  }

  it('walks what is as deep as may be parsed', () => {
    let args: JsonValue = 'http://evil.com'
    for (let depth = 0; depth < 510; depth++) args = depth % 2 === 0 ? [args] : { url: args }
    expect(judgeContent({ kind: 'tool', args }, rules)).to.have.lengthOf(1)
  })

  it('keeps its findings few and short, however wide and hostile the arguments', () => {
    const args = Object.fromEntries(
      Array.from({ length: 5000 }, (_, i) => [`${i}${'k'.repeat(200)}`, `http://${'e'.repeat(200)}.com`]),
    )
    const findings = judgeContent({ kind: 'tool', args: [[args]] }, rules)
    expect(JSON.stringify(findings).length).to.be.at.most(20_000)
  })
})
