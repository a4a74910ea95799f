import { readFileSync } from 'node:fs'
import type { Worker } from 'node:worker_threads'
import type { JsonObject, JsonValue } from '@svc/core/json'
import {
  digested,
  SchemaThread,
  startSchemaWorker,
} from '@svc/plugin-protections/internal/schema/schema-thread'
import { expect } from 'chai'

const object = (properties: JsonObject, more: JsonObject = {}): JsonObject => ({
  type: 'object',
  properties,
  ...more,
})
const branches = (count: number): JsonObject => ({
  anyOf: Array.from({ length: count }, (_, i) => object({ k: { const: i } }, { required: ['k'] })),
})
const nested = (depth: number): JsonObject => (depth === 0 ? {} : object({ a: nested(depth - 1) }))
/** Each schema refers twice to the next, so that the last one is tried 2^29 times. */
const doubled: JsonObject = {
  $ref: '#/$defs/s0',
  $defs: Object.fromEntries(
    Array.from({ length: 30 }, (_, i) => {
      const next = { $ref: `#/$defs/s${i + 1}` }
      return [`s${i}`, i === 29 ? {} : { allOf: [next, next] }]
    }),
  ),
}
/** The branches of each level of a value are twice those of the level above. */
const recursive = object({ next: { anyOf: [{ $ref: '#' }, { $ref: '#' }] }, end: { type: 'string' } })
const deepValue = (depth: number): JsonObject => (depth === 0 ? { end: 1 } : { next: deepValue(depth - 1) })

type Row = readonly [schema: JsonObject, value: JsonValue, result: string]

const rows: Readonly<Record<string, Row>> = {
  'a value that fits': [object({ a: { type: 'string' } }), { a: 'x' }, 'fits'],
  'a value of another type': [object({ a: { type: 'string' } }), { a: 1 }, 'mismatch /a type'],
  'a missing member': [object({}, { required: ['a/b'] }), {}, 'mismatch /a~1b required'],
  'an unknown member': [
    object({}, { additionalProperties: false }),
    { 'b~': 1 },
    'mismatch /b~0 additionalProperties',
  ],
  'a member of Object.prototype': [
    object({}, { required: ['constructor'] }),
    {},
    'mismatch /constructor required',
  ],
  'a number as text, which is not converted': [
    object({ a: { type: 'integer' } }),
    { a: '1' },
    'mismatch /a type',
  ],
  'a missing member with a default, which is not set': [
    object({ a: { default: 1 } }, { required: ['a'] }),
    {},
    'mismatch /a required',
  ],
  'equal items': [
    object({ a: { uniqueItems: true } }),
    { a: [{ b: 1 }, { b: 1 }] },
    'mismatch /a uniqueItems',
  ],
  'a reference within the document': [
    object({ a: { $ref: '#/$defs/x~1%79' } }, { $defs: { 'x/y': { type: 'string' } } }),
    { a: 1 },
    'mismatch /a type',
  ],
  'a recursive schema': [recursive, { next: { next: { end: 1 } } }, 'mismatch /next/next/end type'],
  'a pattern that takes exponential time in V8': [
    object({ a: { pattern: '^(a+)+$' } }),
    { a: `${'a'.repeat(60)}!` },
    'mismatch /a pattern',
  ],
  'a pattern that RE2 has not, which is not checked': [
    object({ a: { pattern: '^(?!b)c$' } }),
    { a: 'x' },
    'fits',
  ],
  'names by such a pattern, and what remains': [
    object({}, { patternProperties: { '^(?!x)': { type: 'string' } }, additionalProperties: false }),
    { a: 1 },
    'fits',
  ],
  'draft 7, named': [
    object({ a: { items: [{ type: 'string' }] } }, { $schema: 'http://json-schema.org/draft-07/schema#' }),
    { a: [1] },
    'mismatch /a/0 type',
  ],
  'draft 7, not named': [object({ a: { items: [{ type: 'string' }] } }), { a: [1] }, 'mismatch /a/0 type'],
  'a format, which is not checked': [object({ a: { format: 'email' } }), { a: 'x' }, 'fits'],
  'no schema': [{ type: 'wrong' }, {}, 'unchecked'],
  'a remote reference': [{ $ref: 'https://evil.example/schema' }, {}, 'unchecked'],
  'a reference to a file': [{ $ref: 'file:///etc/passwd' }, {}, 'unchecked'],
  'a reference by an identifier': [
    { $defs: { a: { $id: 'https://evil.example/', $ref: '#/$defs/a' } } },
    {},
    'unchecked',
  ],
  'a reference to nothing': [{ $ref: '#/$defs/none' }, {}, 'unchecked'],
  'a reference to a prototype': [{ $ref: '#/constructor' }, {}, 'unchecked'],
  'a dynamic reference': [{ $dynamicRef: '#x' }, {}, 'unchecked'],
  'a result that is a promise': [{ $async: true, type: 'object' }, 1, 'unchecked'],
  'a result that is a promise, of a member': [object({ a: { $async: true } }), {}, 'unchecked'],
  'a result that is a promise, behind a reference': [
    { $ref: '#/x', x: { $async: true, type: 'object' } },
    1,
    'unchecked',
  ],
  'a mark of asynchronous schemas that is none': [{ $async: false }, {}, 'unchecked'],
  'a constant from the arguments': [object({ a: { const: { $data: '1/b' } } }), { a: 1, b: 1 }, 'unchecked'],
  'a limit from the arguments': [object({ a: { maximum: { $data: '1/b' } } }), { a: 1, b: 1 }, 'unchecked'],
  'a member with the name of such a reference': [
    object({ $data: { type: 'string' }, $async: { type: 'boolean' } }),
    { $data: 1 },
    'mismatch /$data type',
  ],
  'a null type as OpenAPI writes it': [
    object({ a: { type: 'string', nullable: true } }),
    { a: null },
    'fits',
  ],
  'a keyword that no validator knows, which is not checked': [{ transform: ['trim'] }, {}, 'fits'],
  'a reference to itself': [{ $ref: '#' }, {}, 'unchecked'],
  'a cycle of references': [
    { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { allOf: [{ $ref: '#/$defs/a' }] } } },
    {},
    'unchecked',
  ],
  'references that double': [doubled, {}, 'unchecked'],
  '5,000 branches': [branches(5_000), {}, 'unchecked'],
  '201 branches': [branches(201), {}, 'unchecked'],
  'a reference to a member of no keyword, and one from there to another document': [
    { $ref: '#/x', x: { properties: { a: { $ref: 'https://evil.example/' } } } },
    {},
    'unchecked',
  ],
  'a reference to a member of no keyword, and a dynamic one from there': [
    { $ref: '#/x', x: { properties: { a: { $dynamicRef: '#x' } } } },
    {},
    'unchecked',
  ],
  'a constant that is like a pattern of names': [
    object({ a: { const: { pattern: '(?=x)' } } }),
    { a: { pattern: '(?=x)' } },
    'fits',
  ],
  'members whose names are those of keywords': [
    object({ patternProperties: { '(?=x)': 1 }, additionalProperties: { type: 'string' } }),
    { additionalProperties: 1 },
    'mismatch /additionalProperties type',
  ],
  'an amount that is a multiple of a cent': [object({ a: { multipleOf: 0.01 } }), { a: 19.99 }, 'fits'],
  'a value that is too deep': [{}, JSON.parse(`${'['.repeat(9_000)}${']'.repeat(9_000)}`), 'unchecked'],
  'a schema of 41 levels': [nested(21), {}, 'unchecked'],
  'a schema of 10 MB': [{ description: 'x'.repeat(10_000_000) }, {}, 'unchecked'],
  'a schema of 100,000 members': [
    object(Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [`m${i}`, {}]))),
    {},
    'unchecked',
  ],
}

describe('a schema of a server', function () {
  this.timeout(60_000)
  const thread = new SchemaThread({ monotonic: () => performance.now() })
  after(() => thread.close())

  const check = async (
    schema: JsonObject,
    value: JsonValue,
    caller = 'ada',
    server = 'git',
  ): Promise<string> => {
    const result = await thread.check(digested(schema), value, { caller, server })
    return result.kind === 'mismatch' ? `mismatch ${result.pointer} ${result.keyword}` : result.kind
  }

  for (const [name, [schema, value, expected]] of Object.entries(rows)) {
    it(`and ${name}: ${expected}`, async () => {
      expect(await check(schema, value)).to.equal(expected)
    })
  }

  it('that takes exponential time for a value holds up neither the event loop nor others for long', async () => {
    const beats: number[] = []
    const timer = setInterval(() => beats.push(performance.now()), 10)
    const hostile = check(recursive, deepValue(60), 'mallory')
    const other = check(object({ a: { type: 'string' } }), { a: 1 })
    expect(await hostile).to.equal('unchecked')
    expect(await other).to.equal('mismatch /a type')
    clearInterval(timer)
    expect(beats.length).to.be.above(10)
    expect(await check(recursive, { end: 'x' })).to.equal('fits')
  })

  it('that ends the thread without a value is charged to its server, and to no caller', async () => {
    const endless = object(
      Object.fromEntries(
        Array.from({ length: 32 }, (_, i) => [`m${i}`, { pattern: '\\S{1000}'.repeat(200) + i }]),
      ),
    )
    const other = object({ b: { type: 'string' } }, { title: 'other' })
    const [hostile, honest] = [check(endless, {}, 'ada', 'bad'), check(other, { b: 1 }, 'bob', 'mail')]
    expect(await hostile).to.equal('unchecked')
    expect(await honest).to.equal('mismatch /b type')
    expect(await check(other, { b: 'x' }, 'ada')).to.equal('fits')
    expect(await check(other, { b: 'x' }, 'bob', 'bad'), 'a schema that has run').to.equal('fits')
    const next = object({ b: { type: 'string' } }, { title: 'next' })
    expect(await check(next, { b: 'x' }, 'bob', 'bad'), 'another schema of the server').to.equal('unchecked')
    expect(await check(next, { b: 'x' }, 'bob', 'mail')).to.equal('fits')
  })

  it('runs again if its thread dies; what ends the next one too is charged to its server, and to nobody else', async () => {
    const workers: Worker[] = []
    let isDying = false
    const mortal = new SchemaThread({ monotonic: () => performance.now() }, () => {
      const worker = startSchemaWorker()
      workers.push(worker)
      // The first message says that the thread has started.
      if (isDying) worker.once('message', () => worker.terminate())
      return worker
    })
    const at = (caller: string, server: string) => ({ caller, server })
    const quick = digested(object({ b: { type: 'string' } }))
    expect(await mortal.check(quick, { b: 'x' }, at('ada', 'git'))).to.deep.equal({ kind: 'fits' })
    const slow = mortal.check(digested(recursive), deepValue(14), at('ada', 'git'))
    await workers[0]?.terminate()
    expect(await slow).to.include({ kind: 'mismatch' })
    expect(workers).to.have.lengthOf(2)

    isDying = true
    await workers[1]?.terminate()
    expect(await mortal.check(digested({ title: 'a' }), {}, at('ada', 'bad'))).to.include({
      kind: 'unchecked',
    })
    isDying = false
    expect(await mortal.check(quick, { b: 1 }, at('ada', 'git'))).to.include({ kind: 'mismatch' })
    expect(await mortal.check(digested({ title: 'b' }), {}, at('bob', 'bad'))).to.include({
      kind: 'unchecked',
    })
    expect(await mortal.check(digested({ title: 'b' }), {}, at('bob', 'mail'))).to.deep.equal({
      kind: 'fits',
    })
    await mortal.close()
  })

  it('of a real tool fits its recorded calls, and no others', async () => {
    const lines = readFileSync(new URL('../../../../fixtures/tool-calls.ndjson', import.meta.url), 'utf8')
    const recorded = lines
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(new Set(recorded.map(({ source, tool }) => `${source} ${tool}`)).size).to.be.at.least(50)
    for (const { tool, inputSchema, arguments: args } of recorded) {
      expect(await check(inputSchema, args), tool).to.equal('fits')
      for (const [member, value] of Object.entries(args)) {
        const wrong = { ...args, [member]: typeof value === 'object' ? 'text' : { not: value } }
        expect(await check(inputSchema, wrong), `${tool} ${member}`).to.match(/^mismatch/)
      }
    }
  })
})
