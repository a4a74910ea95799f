// Text of any characters takes work in proportion to its length, wherever a caller's text is normalized. Normalizing sorts
// each run of combining marks at a cost of up to its square, so the work counted is the sum of these squares over all
// text that reaches a normalizer: `String.prototype.normalize`, and the parser of URLs.
import { foldName, formatReference, normalized, ReferenceInputError, wordsOf } from '@svc/core/match'
import { checkContent, contentRules, securityPlugin } from '@svc/plugin-security'
import { expect } from 'chai'
import fc from 'fast-check'
import { checkConfusables, McpRefusal, memberNames, readMessage } from 'svc-sdk/internal/mcp/message'
import { messageSubject } from 'svc-sdk/internal/mcp/subject'
import { propertyRuns } from '../support/property-runs.js'

const LENGTH = 2 ** 14
/** Per UTF-16 unit of text; a host of 512 units may be one run. Quadratic cost is `LENGTH` a unit. */
const MAX_WORK = 1024

const rules = contentRules(
  securityPlugin.schema.parse({ egress_allowlist: ['good.com'], fs_allowlist: ['/srv/**'], fs_root: '/srv' }),
)

/** A caller's text in each place where it is normalized. */
const places: Readonly<Record<string, (text: string) => unknown>> = {
  'the name of a member': (text) => unlessRefused(() => checkConfusables({ [text]: 1 }, memberNames('name'))),
  'a subscription filter': (text) =>
    unlessRefused(() =>
      messageSubject(
        readMessage({
          jsonrpc: '2.0',
          id: 1,
          method: 'subscriptions/listen',
          params: { notifications: { [text]: [] } },
        }),
        { passParams: [], isStateless: false },
      ),
    ),
  'a word of a name': (text) => wordsOf(text),
  'the name of a tool': (text) =>
    each(text, 4096, (tool) => unlessRefused(() => formatReference({ server: 's', tool, version: '1' }))),
  'a path': (text) =>
    each(text, 32_000, (path) => checkContent({ kind: 'tool', args: { path: `/srv/${path}` } }, rules)),
  'a relative path': (text) =>
    each(text, 32_000, (path) => checkContent({ kind: 'tool', args: { path } }, rules)),
  'a file URL': (text) =>
    each(text, 32_000, (host) => checkContent({ kind: 'tool', args: { path: `file://${host}/a` } }, rules)),
  'a URL': (text) =>
    each(text, 2000, (host) => checkContent({ kind: 'tool', args: { url: `http://${host}/a` } }, rules)),
  'a key': (text) => each(text, 250, (key) => checkContent({ kind: 'tool', args: { [key]: '/a' } }, rules)),
  'a folded name': (text) => foldName(text),
  'text in compatibility form': (text) => normalized(text, 'NFKC'),
}

function each(text: string, length: number, use: (piece: string) => unknown): void {
  for (let at = 0; at < text.length; at += length) use(text.slice(at, at + length))
}

function unlessRefused(act: () => unknown): void {
  try {
    act()
  } catch (error) {
    if (!(error instanceof McpRefusal) && !(error instanceof ReferenceInputError)) throw error
  }
}

const repeated = (piece: string) => piece.repeat(LENGTH / piece.length)

/** The characters that normalization changes or may move; all others are copied. */
const changing: string[] = []
for (let code = 0x80; code < 0x110000; code++) {
  if (code >= 0xd800 && code < 0xe000) continue
  const character = String.fromCodePoint(code)
  if (/\p{M}/u.test(character) || character.normalize('NFKD') !== character) changing.push(character)
}
const marks = changing.filter((character) => /^[\p{M}]/u.test(character.normalize('NFKD')))
const runs = new RegExp(`[${marks.join('')}]+`, 'gu')

/** The work of all normalization while `use` runs. */
function workOf(use: () => unknown): number {
  let work = 0
  const count = (text: string): void => {
    for (const [run] of text.matchAll(runs)) work += run.length ** 2
  }
  const { normalize } = String.prototype
  const OwnUrl = globalThis.URL
  String.prototype.normalize = function (this: string, form?: string) {
    count(this)
    return normalize.call(this, form)
  }
  globalThis.URL = class extends OwnUrl {
    constructor(url: string | URL, base?: string | URL) {
      count(String(url))
      super(url, base)
    }
    static override canParse(url: string | URL, base?: string | URL): boolean {
      count(String(url))
      return OwnUrl.canParse(String(url), base?.toString())
    }
  }
  try {
    use()
  } finally {
    String.prototype.normalize = normalize
    globalThis.URL = OwnUrl
  }
  return work
}

describe('normalization', function () {
  this.timeout(propertyRuns(60_000))

  for (const [place, use] of Object.entries(places)) {
    it(`takes work in proportion to the text for all characters, alone and in pairs: ${place}`, () => {
      const character = fc.oneof(fc.constantFrom(...changing), fc.constantFrom(...marks))
      const pair = fc.array(character, { minLength: 1, maxLength: 2 })
      const sample = fc.sample(pair, { numRuns: propertyRuns(12), seed: 10 })
      const pieces = [...sample.map((pair) => pair.join('')), '\u0301\uff9e', '\u0301\u0323', 'e\u0301\u0323']
      for (const piece of pieces) {
        expect(workOf(() => use(repeated(piece))) / LENGTH, JSON.stringify(piece)).to.be.at.most(MAX_WORK)
      }
    })
  }
})
