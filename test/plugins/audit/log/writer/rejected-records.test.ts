import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { CanonicalJsonError } from '@svc/core/json'
import type { AppenderOptions, AuditEnvelope } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { appenderIn, codeOf, DAY, envelope, recordsOf, signer } from './records.js'

describe('SvcAppender rejects, writing nothing,', () => {
  const dir = temporaryDir()

  for (const [title, record, code] of [
    ['a ts without zone', envelope({ ts: `${DAY}T10:00:00` }), 'bad_timestamp'],
    ['a ts that is a date', envelope({ ts: DAY }), 'bad_timestamp'],
    ['a ts of a day that does not exist', envelope({ ts: '2026-02-30T10:00:00Z' }), 'bad_timestamp'],
    ['a ts in words', envelope({ ts: 'Sat, 21 Nov 2026 10:00:00 GMT' }), 'bad_timestamp'],
    ['a missing ts', { tenant: 'acme' } as AuditEnvelope, 'bad_timestamp'],
    ['something that is not an object', 'record' as unknown as AuditEnvelope, 'bad_envelope'],
    ['an array', [] as unknown as AuditEnvelope, 'bad_envelope'],
    [
      'an agent that is not a string',
      envelope({ nodeId: 3 as unknown as string, agentRef: 'r' }),
      'bad_envelope',
    ],
    ['NaN', envelope({ latency_ms: Number.NaN }), 'non_finite_number'],
    ['an envelope that is signed already', { ...envelope(), sig: 'x' } as AuditEnvelope, 'reserved_member'],
  ] as const) {
    it(title, async () => {
      const appender = appenderIn(dir.path)
      expect(await codeOf(appender.append(record))).to.equal(code)
      expect(appender.status()).to.include({ failed: 1, pendingBytes: 0 })
      await appender.close()
      expect(existsSync(join(dir.path, `audit-${DAY}.ndjson`))).to.equal(false)
    })
  }

  for (const [what, changes, limits] of [
    ['and continues with the next record', {}, {}],
    [
      'on the first record of a day, and continues with a record larger than a batch',
      { agentVariables: { text: 'x'.repeat(9_000) } },
      { batchBytes: 5_000 },
    ],
  ] as const)
    it(`when the signer throws, ${what}`, async () => {
      let broken = true
      const sign = (data: Uint8Array) => {
        if (broken) throw new Error('no key today')
        return signer.sign(data)
      }
      const flaky = { keyId: signer.keyId, verify: () => true, sign }
      const appender = appenderIn(dir.path, { signer: flaky, limits })
      expect(await codeOf(appender.append(envelope()))).to.equal('signer_failed')
      broken = false
      await appender.append(envelope(changes))
      await appender.close()
      expect(recordsOf(dir.path)).to.have.length(1)
    })

  it('a signature of the wrong length', async () => {
    const short = { keyId: 'x', verify: () => true, sign: () => new Uint8Array(63) }
    await using appender = appenderIn(dir.path, { signer: short })
    expect(await codeOf(appender.append(envelope()))).to.equal('signer_failed')
  })

  it('an envelope that breaks the types of the contract', async () => {
    const appender = appenderIn(dir.path)
    const wrong = {
      trace_id: 'x1',
      span_id: '',
      cause_span_id: 'no hexadecimal',
      tool: 'read',
      tenant: '',
      server: undefined,
      status: 'denied',
      latency_ms: '1',
      policy: { decision: 'escalate', retention: 'standard' },
      input_sha256: 7,
      agentVariables: [],
      environment: null,
    }
    const rows = [
      ...Object.entries(wrong),
      ['server', 'files@'],
      ['server', '@1.0.0'],
      ['trace_id', 7],
    ] as const
    for (const [field, value] of rows) {
      const failure = await appender.append(envelope({ [field]: value })).catch((error: Error) => error)
      expect(String(failure), field).to.match(new RegExp(`bad_envelope|${field}\\S* must be `))
    }
    await appender.close()
    expect(recordsOf(dir.path)).to.deep.equal([])
  })

  it('without a signer, at construction', () => {
    const signer = undefined as unknown as AppenderOptions['signer']
    expect(() => appenderIn(dir.path, { signer })).to.throw('signer has no keyId, sign or verify')
  })

  it('when signAsync rejects', async () => {
    const remote = {
      keyId: 'x',
      sign: signer.sign,
      verify: () => true,
      signAsync: () => Promise.reject(new Error('KMS down')),
    }
    await using appender = appenderIn(dir.path, { signer: remote })
    expect(await codeOf(appender.append(envelope()))).to.equal('signer_failed')
    expect(appender.status()).to.include({ failed: 1, pendingBytes: 0 })
  })

  it('a record with a member that the log sets itself', async () => {
    const appender = appenderIn(dir.path)
    for (const name of ['journal', 'log_id', 'seq', 'lost', 'sig']) {
      const record = { ...envelope(), [name]: 1 }
      const error = await appender.append(record).catch((error: unknown) => error)
      expect(error, name).to.be.an('error')
    }
    await appender.close()
    expect(recordsOf(dir.path)).to.deep.equal([])
  })

  it('with the typed error of canonical JSON, with the path', async () => {
    await using appender = appenderIn(dir.path)
    const error = await appender
      .append(envelope({ agentVariables: { f: () => 1 } }))
      .then(null, (reason) => reason)
    expect(error).to.be.instanceOf(CanonicalJsonError)
    expect(error.path).to.equal('$.agentVariables.f')
  })
})
