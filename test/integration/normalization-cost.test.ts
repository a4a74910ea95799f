// Text of any characters costs about what ordinary text costs, wherever a caller's text is normalized. Told by
// processor time, in relation to ordinary text of the same length.
import { foldName, formatReference, normalized, ReferenceInputError, wordsOf } from '@svc/core/match'
import { checkContent, contentRules, securityPlugin } from '@svc/plugin-security'
import { expect } from 'chai'
import fc from 'fast-check'
import { McpRefusal } from 'svc-sdk/internal/mcp/mcp-refusal'
import { checkMembers, memberNames, readMessage } from 'svc-sdk/internal/mcp/message'
import { subjectOf } from 'svc-sdk/internal/mcp/subject'
import { cpuTimeOf } from '../support/cpu-time.js'
import { propertyRuns } from '../support/property-runs.js'

const LENGTH = 2 ** 17
/** Normalizing at quadratic cost takes several thousand times as long as ordinary text of this length. */
const MAX_RATIO = 100
/** Milliseconds: below, the figures tell nothing. */
const MIN_TIME = 20

const rules = contentRules(
  securityPlugin.schema.parse({ egress_allowlist: ['good.com'], fs_allowlist: ['/srv/**'], fs_root: '/srv' }),
)

/** A caller's text in each place where it is normalized. */
const places: Readonly<Record<string, (text: string) => unknown>> = {
  'the name of a member': (text) => unlessRefused(() => checkMembers({ [text]: 1 }, memberNames('name'))),
  'a subscription filter': (text) =>
    unlessRefused(() =>
      subjectOf(
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
  } catch (fault) {
    if (!(fault instanceof McpRefusal) && !(fault instanceof ReferenceInputError)) throw fault
  }
}

const repeated = (piece: string) => piece.repeat(LENGTH / piece.length)

/** What normalization changes, or may move: everything else costs what ordinary text costs. */
const changing: string[] = []
for (let code = 0x80; code < 0x110000; code++) {
  if (code >= 0xd800 && code < 0xe000) continue
  const character = String.fromCodePoint(code)
  if (/\p{M}/u.test(character) || character.normalize('NFKD') !== character) changing.push(character)
}
const marks = changing.filter((character) => /^[\p{M}]/u.test(character.normalize('NFKD')))

describe('normalization', function () {
  this.timeout(propertyRuns(60_000))

  for (const [place, use] of Object.entries(places)) {
    it(`costs much the same for all characters, alone and in pairs: ${place}`, async () => {
      const plain = Math.max(await cpuTimeOf(() => use(repeated('ä中'))), MIN_TIME / MAX_RATIO)
      const character = fc.oneof(fc.constantFrom(...changing), fc.constantFrom(...marks))
      const pair = fc.array(character, { minLength: 1, maxLength: 2 })
      const sample = fc.sample(pair, { numRuns: propertyRuns(12), seed: 10 })
      const pieces = [...sample.map((pair) => pair.join('')), '\u0301\uff9e', '\u0301\u0323', 'e\u0301\u0323']
      for (const piece of pieces) {
        const text = repeated(piece)
        let ratio = Number.POSITIVE_INFINITY
        for (let tries = 0; tries < 3 && ratio > MAX_RATIO; tries++) {
          ratio = (await cpuTimeOf(() => use(text))) / plain
        }
        expect(ratio, JSON.stringify(piece)).to.be.at.most(MAX_RATIO)
      }
    })
  }
})
