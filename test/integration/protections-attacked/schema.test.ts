// Attacks on the check of arguments: patterns that two engines read differently, schemas and values that take time, and
// arguments that a server reads in another way.
import type { JsonObject } from '@svc/core/json'
import { linearPattern } from '@svc/plugin-protections/internal/schema/patterns'
import {
  digested,
  type SchemaResult,
  SchemaThread,
} from '@svc/plugin-protections/internal/schema/schema-thread'
import { expect } from 'chai'
import { Chance } from '../../support/chance.js'
import { propertyRuns } from '../../support/property-runs.js'
import { type Face, messageIn, startRawServer } from './raw-server.js'

const seed = Number(process.env['SVC_SEED'] ?? 1)

/** Parts of patterns, each of which some engine reads in its own way. */
const atoms = [
  ...[
    'a',
    'b',
    '.',
    '[^a]',
    '[a-c]',
    '[.]',
    '[\\s]',
    '[^\\s]',
    '[\\w-]',
    '[\\d\\s]',
    '[\\S]',
    '\\b',
    '^',
    '$',
    '[]',
    '[^]',
  ],
  ...[
    '\\d',
    '\\D',
    '\\w',
    '\\W',
    '\\s',
    '\\S',
    '\\n',
    '\\r',
    '\\t',
    '\\v',
    '\\f',
    '\\0',
    '\\cA',
    '\\x41',
    '\\u0041',
  ],
  ...[
    '\\u{1F600}',
    '\\u2028',
    '\\/',
    '\\.',
    '\\\\',
    '\\$',
    '\\p{L}',
    '\\P{L}',
    '\\p{Lu}',
    '\\p{Script=Greek}',
    'é',
    '😀',
    '[😀-😂]',
  ],
  ...[
    '(?:a|b)',
    '(a)',
    '(?<n>a)',
    '\\z',
    '\\A',
    '\\Q.\\E',
    '\\C',
    '\\pL',
    '(?i)',
    '[[:alpha:]]',
    '\\a',
    '\\e',
    '{,2}',
  ],
] as [string, ...string[]]
const quantifiers: [string, ...string[]] = ['', '', '', '*', '+', '?', '{2}', '{1,2}', '*?']
const characters = [...'abcA1 \n\r\t\v\f\u00a0\u2028\u2029\ufeffé\u03bb😀_-.\\$/0\0\u0001Kſ{}]QEzCxi'] as [
  string,
  ...string[],
]

describe('arguments under attack', function () {
  this.timeout(120_000)

  it('match a pattern as ECMAScript reads it, or it is not checked', () => {
    const chance = new Chance(seed)
    const found: string[] = []
    let compared = 0
    for (let run = 0; run < propertyRuns(1_500); run++) {
      const parts = Array.from(
        { length: chance.int(1, 4) },
        () => chance.pick(atoms) + chance.pick(quantifiers),
      )
      const pattern = chance.next() < 0.5 ? `^${parts.join('')}$` : parts.join('')
      const linear = linearPattern(pattern)
      const own = compiled(pattern)
      if (linear === undefined || own === undefined) continue
      for (let text = 0; text < 20; text++) {
        const value = Array.from({ length: chance.int(0, 4) }, () => chance.pick(characters)).join('')
        compared++
        if (own.test(value) !== linear.test(value))
          found.push(`seed ${seed}: ${pattern} ${JSON.stringify(value)}`)
      }
    }
    expect(found).to.deep.equal([])
    expect(compared).to.be.greaterThan(2_000)
  })

  it('of one caller are checked soon, whatever others send to slow tools', async () => {
    const thread = new SchemaThread({ monotonic: () => performance.now() })
    const at = (caller: string) => ({ caller, server: 'files' })
    const slow = (title: string): JsonObject => ({
      title,
      properties: { next: { anyOf: [{ $ref: '#' }, { $ref: '#' }] }, end: { type: 'string' } },
    })
    const deep = (levels: number): JsonObject => (levels === 0 ? { end: 1 } : { next: deep(levels - 1) })
    const large = { a: Array.from({ length: 40_000 }, (_, i) => ({ i, text: 'x'.repeat(40) })) } as JsonObject
    const unique: JsonObject = { properties: { a: { uniqueItems: true } } }
    const hostile: Promise<SchemaResult>[] = []
    for (let tool = 0; tool < 6; tool++) {
      hostile.push(thread.check(digested(slow(`${tool}`)), deep(40), at('mallory')))
      hostile.push(thread.check(digested({ ...unique, title: `${tool}` }), large, at('trent')))
    }
    let ended = 0
    for (const one of hostile) one.then(() => ended++)
    const quick: JsonObject = { properties: { a: { type: 'string' } } }
    expect(await thread.check(digested(quick), { a: 'x' }, at('ada'))).to.deep.equal({ kind: 'fits' })
    expect(ended, 'of 12').to.be.below(4)
    const kinds = (await Promise.all(hostile)).map(({ kind }) => kind)
    expect(kinds.filter((_, i) => i % 2 === 0)).to.deep.equal(Array(6).fill('unchecked'))
    expect(await thread.check(digested(quick), { a: 'x' }, at('mallory'))).to.include({ kind: 'unchecked' })
    await thread.close()
  })

  const faces: readonly Face[] = ['handshake', 'stateless', 'several servers']
  const schemas: Readonly<Record<string, readonly [schema: string, ...refused: string[]]>> = {
    'a schema of members': [
      '{"type":"object","properties":{"a":{"type":"string","maxLength":3}},"required":["a"],"additionalProperties":false}',
      ...[
        '{}',
        '{"a":1}',
        '{"a":["x"]}',
        '{"a":"xxxx"}',
        '{"a":"x","b":1}',
        '{"a":"x","__proto__":1}',
        '{"A":"x"}',
        '{"a":"x","a\\u0000":1}',
      ],
      ...[
        '{"a":1e400}',
        '{"a":"x","a":1}',
        '{"a":1,"a":"x"}',
        '{"a":"x","constructor":1}',
        '{"a":null}',
        '{"\\u0061 ":"x"}',
        `{"a":${'['.repeat(3_000)}${']'.repeat(3_000)}}`,
      ],
    ],
    'a schema that nothing fits': ['false', '{}', '{"a":"x"}'],
    'a list as schema': ['[]', '{}'],
    'a text as schema': ['"object"', '{}'],
    'null as schema': ['null', '{}'],
    'a schema with another base': [
      '{"$id":"https://evil.example/","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"$id":"x","type":"string"}}}',
      '{"a":"x"}',
    ],
  }

  for (const face of faces) {
    it(`that do not fit reach no server, at the face ${face}`, async () => {
      await using server = await startRawServer({
        protections: { definitions: { trust: 'first_use' }, schema: 'enforce' },
      })
      let version = 0
      for (const [what, [schema, ...refused]] of Object.entries(schemas)) {
        const tool = `put${version++}`
        server.results['tools/list'] = () => `{"tools":[{"name":"${tool}","inputSchema":${schema}}]}`
        await server.ask(face, 'tools/list')
        for (const text of refused) {
          const response = await server.ask(
            face,
            'tools/call',
            { name: face === 'several servers' ? `files__${tool}` : tool, arguments: '@raw' },
            text,
          )
          expect(server.ran, `${what}: ${text.slice(0, 100)}`).to.deep.equal([])
          expect(messageIn(response)['error'], `${what}: ${text.slice(0, 100)}: ${response}`).to.be.an(
            'object',
          )
        }
      }
    })
  }
})

function compiled(pattern: string): RegExp | undefined {
  try {
    return new RegExp(pattern, 'u')
  } catch {
    return undefined
  }
}
