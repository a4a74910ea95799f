import { canonicalize, parseJsonObject } from '@svc/core/json'
import { canonicalText, lineText } from '@svc/plugin-audit/internal/log/format/stored-record'
import { scanLine } from '@svc/plugin-audit/internal/log/tools/verify/canonical-scan'
import { expect } from 'chai'
import fc from 'fast-check'
import { propertyRuns } from '../../../../../support/property-runs.js'
import { envelope } from '../../writer/records.js'

const NAMES = ['key_id', 'log_id', 'seq', 'sig', 'tool', 'ts', 'lost', 'a', 'sigma', '']

/** Whether the parser calls the line canonical, and the record in it. */
function parsed(line: Buffer): Record<string, unknown> | undefined {
  const text = lineText(line)
  const record = text === undefined ? undefined : parseJsonObject(text)
  return record !== undefined && canonicalText(record) === text ? record : undefined
}

/** Fails if the scan knows a line that the parser does not, or finds something else in it. */
function expectAgreement(line: Buffer): void {
  const scanned = scanLine(line)
  if (scanned === undefined) return
  const record = parsed(line)
  expect(record, line.toString()).not.to.equal(undefined)
  const { sig, ...unsigned } = record ?? {}
  const { members, signature } = scanned
  const [start, end] = signature
  expect(members.sig).to.equal(sig)
  for (const name of ['key_id', 'log_id', 'seq', 'tool', 'ts'] as const)
    expect(members[name], line.toString()).to.equal(record?.[name])
  expect(members.lost !== undefined, line.toString()).to.equal('lost' in unsigned)
  const signed = Buffer.concat([line.subarray(0, start), line.subarray(end)]).toString()
  expect(signed).to.equal(canonicalize(unsigned))
}

const name = fc.oneof(fc.constantFrom(...NAMES), fc.string({ maxLength: 4, unit: 'binary' }))
const number = fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer())
const text = fc.oneof(fc.string(), fc.string({ unit: 'binary-ascii' }), fc.string({ unit: 'grapheme' }))
const value = fc.letrec((again) => ({
  any: fc.oneof(
    { depthSize: 'small' },
    number,
    text,
    fc.constantFrom(null, true, false),
    fc.array(again('any'), { maxLength: 3 }),
    fc.dictionary(name, again('any'), { maxKeys: 4 }),
  ),
})).any
const record = fc
  .record({ members: fc.dictionary(name, value, { maxKeys: 6 }), sig: fc.oneof(fc.base64String(), value) })
  .map(({ members, sig }) => ({ ...members, sig }))
const change = fc.record({
  at: fc.nat(),
  remove: fc.nat(3),
  insert: fc.constantFrom(
    ...[
      '',
      ' ',
      ',',
      ':',
      '"',
      '\\',
      '\\u0041',
      '\\/',
      '\\n',
      '{}',
      '[',
      ']',
      '}',
      '0',
      '-',
      '.',
      'e',
      '+',
      '1e5',
    ],
    ...[
      '-Infinity',
      '-0',
      '01',
      '1.0',
      '1E2',
      'null',
      'nul',
      '"a":1,',
      ',"a":1',
      '"sig":"",',
      '\0',
      '\x7f',
      'é',
    ],
  ),
  isCut: fc.boolean(),
})

describe('the scan of a line', () => {
  it('knows no line that the parser does not call canonical, and finds its members and its signed bytes', () => {
    fc.assert(
      fc.property(record, fc.array(change, { maxLength: 3 }), (given, changes) => {
        let line = Buffer.from(canonicalText(given) ?? '{}')
        expectAgreement(line)
        for (const { at, remove, insert, isCut } of changes) {
          const start = at % (line.length + 1)
          // Latin-1 text is no UTF-8 where it is not ASCII.
          const added = Buffer.from(insert, isCut ? 'latin1' : 'utf8')
          line = Buffer.concat([line.subarray(0, start), added, line.subarray(start + remove)])
          expectAgreement(line)
        }
      }),
      { numRuns: propertyRuns(3_000) },
    )
  })

  it('knows the records of calls, with decimals, quotes and text that is not ASCII', () => {
    const place = { log_id: 'ab'.repeat(8), seq: `${'cd'.repeat(8)}:17`, key_id: `ed25519:${'e'.repeat(64)}` }
    const detail = [{ stage: 'schemas', detail: 'the "path" is\tC:\\temp, größer als 1' }]
    for (const sig of ['ed25519:AAAA', '']) {
      const call = envelope({ ...place, latency_ms: 1.375, findings: detail as never })
      const line = Buffer.from(canonicalize({ ...call, sig }))
      expect(scanLine(line)?.members).to.deep.equal({ ...place, sig, tool: call.tool, ts: call.ts })
      expectAgreement(line)
    }
  })

  for (const stated of [
    ...[
      '-Infinity',
      '-',
      '-0',
      '01',
      '1.0',
      '1E2',
      '1e21',
      '1e400',
      '0x10',
      '.5',
      '1_0',
      'nul',
      'nulll',
      'True',
      '',
    ],
    ...[
      '"\\u0041"',
      '"\\/"',
      '"\\u0001"',
      '"\\u001F"',
      '"\0"',
      '"\xe9"',
      '"\xed\xa0\x80"',
      '[1,]',
      '[,1]',
      '[1 ]',
    ],
    ...['{"b":1,"b":1}', '{"b":1,"a":1}', '{"aa":1,"a":1}', '{"a":1,}', '{"a" :1}', '{a:1}', '{"a":}'],
  ])
    it(`leaves to the parser what is not canonical: ${JSON.stringify(stated)}`, () => {
      const line = Buffer.from(`{"a":${stated},"sig":"x"}`, 'latin1')
      expect(scanLine(line)).to.equal(undefined)
    })

  it('finds the bytes around a signature that is the first, the last or the only member', () => {
    for (const line of ['{"sig":"x"}', '{"sig":"x","ts":"y"}', '{"log_id":"y","sig":"x"}']) {
      expect(scanLine(Buffer.from(line)), line).not.to.equal(undefined)
      expectAgreement(Buffer.from(line))
    }
  })

  it('leaves deep and odd lines to the parser', () => {
    const deep = `{"a":${'['.repeat(9_000)}${']'.repeat(9_000)},"sig":"x"}`
    for (const line of [
      deep,
      '',
      '{',
      '{}',
      '[]',
      '{"sig":1}',
      '{"sig":"x"} ',
      '{"sig":"x","ts":1}',
      '{"sig":"x',
    ])
      expect(scanLine(Buffer.from(line)), line.slice(0, 20)).to.equal(undefined)
  })
})
