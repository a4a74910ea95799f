import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { CanonicalJsonError } from '@svc/core/json'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import { publicKeyLine } from '@svc/plugin-audit/internal/log/keys/public-key'
import { AuditBackpressureError, type AuditEnvelope, SvcAppender } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import sinon from 'sinon'
import { temporaryDir } from '../../temporary.js'
import {
  appenderIn,
  codeOf,
  DAY,
  diskWith,
  envelope,
  fixedClock,
  linesOf,
  memoryLogger,
  recordsOf,
  signer,
  spansOf,
} from './records.js'

const presign = { apiBaseUrl: 'http://127.0.0.1:9', auditKey: 'Bearer k' }

describe('SvcAppender', () => {
  const dir = temporaryDir()

  describe('append', () => {
    it('signs the envelope and appends one canonical line to the daily log', async () => {
      const appender = appenderIn(dir.path)
      const record = envelope()
      await appender.append(record)
      await appender.close()
      expect(recordsOf(dir.path)).to.deep.equal([record])
    })

    it('inserts the signature at its sorted position', async () => {
      const appender = appenderIn(dir.path)
      const shapes = [{ a: 1 }, { z: 1 }, { a: 'ü', z: '…' }, {}, { ä: 'ö' }]
      for (const shape of shapes) await appender.append(envelope({ agentVariables: shape, ...shape }))
      await appender.close()
      expect(recordsOf(dir.path)).to.have.length(shapes.length)
    })

    it('resolves only after fdatasync', async () => {
      const ends: (() => void)[] = []
      const fileSystem = diskWith({
        fdatasync: (fd, done) => void ends.push(() => nodeFileSystem.fdatasync(fd, done)),
      })
      const appender = appenderIn(dir.path, { fileSystem })
      let resolved = false
      const appended = appender.append(envelope()).then(() => {
        resolved = true
      })
      while (ends.length === 0) await new Promise((resolve) => setImmediate(resolve))
      expect([spansOf(dir.path).length, resolved]).to.deep.equal([1, false])
      ends.pop()?.()
      await appended
      await appender.close()
    })

    it('shares one fdatasync among concurrent records', async () => {
      let syncs = 0
      const fileSystem = diskWith({
        fdatasync: (fd, done) => {
          syncs++
          nodeFileSystem.fdatasync(fd, done)
        },
      })
      const appender = appenderIn(dir.path, { fileSystem })
      await Promise.all(Array.from({ length: 50 }, () => appender.append(envelope())))
      expect(syncs).to.equal(1)
      expect(appender.status()).to.include({ appended: 50, batches: 1, pendingBytes: 0, writable: true })
      await appender.close()
    })

    it('keeps the order of the calls', async () => {
      const appender = appenderIn(dir.path, { limits: { batchBytes: 3_000 } })
      const records = Array.from({ length: 40 }, () => envelope())
      await Promise.all(records.map((record) => appender.append(record)))
      await appender.close()
      expect(spansOf(dir.path)).to.deep.equal(records.map((record) => record.span_id))
    })

    it('reads the envelope during the call, not afterwards', async () => {
      const appender = appenderIn(dir.path)
      const record = envelope()
      const appended = appender.append(record)
      record.tenant = 'changed'
      await appended
      await appender.close()
      expect(recordsOf(dir.path)[0]?.tenant).to.equal('acme')
    })

    it('creates the directory with mode 0700 and its files with 0600', async () => {
      const path = join(dir.path, 'a', 'b')
      const appender = appenderIn(path)
      await appender.append(envelope({ nodeId: 'n', agentRef: 'r' }))
      await appender.close()
      const modes = ['', `audit-${DAY}.ndjson`, '.svc-lock', 'agents/n', `agents/n/${DAY}/r.ndjson`].map(
        (name) => (statSync(join(path, name)).mode & 0o777).toString(8),
      )
      expect(modes).to.deep.equal(['700', '600', '600', '700', '600'])
    })

    it('signs through signAsync where the signer has it', async () => {
      const remote = {
        keyId: signer.keyId,
        sign: () => {
          throw new Error('must not be used')
        },
        verify: () => true,
        signAsync: async (data: Uint8Array) => signer.sign(data),
      }
      const appender = appenderIn(dir.path, { signer: remote })
      const records = Array.from({ length: 20 }, () => envelope())
      await Promise.all(records.map((record) => appender.append(record)))
      await appender.close()
      expect(spansOf(dir.path).sort()).to.deep.equal(records.map((record) => record.span_id).sort())
    })

    it('waits in flush and close for asynchronous signatures', async () => {
      let give: () => void = () => undefined
      const asked = new Promise<void>((resolve) => {
        give = resolve
      })
      const remote = {
        keyId: signer.keyId,
        sign: signer.sign,
        verify: () => true,
        signAsync: async (data: Uint8Array) => {
          await asked
          return signer.sign(data)
        },
      }
      const appender = appenderIn(dir.path, { signer: remote })
      const appended = appender.append(envelope())
      const closed = appender.close()
      give()
      await Promise.all([appended, closed])
      expect(recordsOf(dir.path)).to.have.length(1)
    })
  })

  describe('rejects, writing nothing,', () => {
    for (const [title, record, code] of [
      ['a ts without zone', envelope({ ts: `${DAY}T10:00:00` }), 'bad_timestamp'],
      ['a ts that is a date', envelope({ ts: DAY }), 'bad_timestamp'],
      ['a ts of a day that does not exist', envelope({ ts: '2026-02-30T10:00:00Z' }), 'bad_timestamp'],
      ['a ts in words', envelope({ ts: 'Sat, 21 Nov 2026 10:00:00 GMT' }), 'bad_timestamp'],
      ['a missing ts', { tenant: 'acme' } as AuditEnvelope, 'bad_timestamp'],
      ['something that is no object', 'record' as unknown as AuditEnvelope, 'bad_record'],
      ['an array', [] as unknown as AuditEnvelope, 'bad_record'],
      [
        'an agent that is no string',
        envelope({ nodeId: 3 as unknown as string, agentRef: 'r' }),
        'bad_record',
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

    it('when the signer throws, and continues with the next record', async () => {
      let broken = true
      const flaky = {
        keyId: signer.keyId,
        verify: () => true,
        sign: (data: Uint8Array) => {
          if (broken) throw new Error('no key today')
          return signer.sign(data)
        },
      }
      const appender = appenderIn(dir.path, { signer: flaky })
      expect(await codeOf(appender.append(envelope()))).to.equal('signer_failed')
      broken = false
      await appender.append(envelope())
      await appender.close()
      expect(recordsOf(dir.path)).to.have.length(1)
    })

    it('when the signer throws on the first record of a day, and continues with a record larger than a batch', async () => {
      let broken = true
      const flaky = {
        keyId: signer.keyId,
        verify: () => true,
        sign: (data: Uint8Array) => {
          if (broken) throw new Error('no key today')
          return signer.sign(data)
        },
      }
      const appender = appenderIn(dir.path, { signer: flaky, limits: { batchBytes: 5_000 } })
      expect(await codeOf(appender.append(envelope()))).to.equal('signer_failed')
      broken = false
      await appender.append(envelope({ agentVariables: { text: 'x'.repeat(9_000) } }))
      await appender.close()
      expect(recordsOf(dir.path)).to.have.length(1)
    })

    it('a signature of the wrong length', async () => {
      const short = { keyId: 'x', verify: () => true, sign: () => new Uint8Array(63) }
      const appender = appenderIn(dir.path, { signer: short })
      expect(await codeOf(appender.append(envelope()))).to.equal('signer_failed')
      await appender.close()
    })

    it('when signAsync rejects', async () => {
      const remote = {
        keyId: 'x',
        sign: signer.sign,
        verify: () => true,
        signAsync: () => Promise.reject(new Error('KMS down')),
      }
      const appender = appenderIn(dir.path, { signer: remote })
      expect(await codeOf(appender.append(envelope()))).to.equal('signer_failed')
      expect(appender.status()).to.include({ failed: 1, pendingBytes: 0 })
      await appender.close()
    })
  })

  describe('days', () => {
    it('writes a record to the file of its own UTC day, whatever the clock says', async () => {
      const appender = appenderIn(dir.path)
      await appender.append(envelope({ ts: '2026-11-20T23:59:59.999Z' }))
      await appender.append(envelope({ ts: '2026-11-21T00:00:00Z' }))
      await appender.close()
      expect(spansOf(dir.path, 'audit-2026-11-20.ndjson')).to.have.length(1)
      expect(spansOf(dir.path, 'audit-2026-11-21.ndjson')).to.have.length(1)
    })

    it('converts an offset to UTC', async () => {
      const appender = appenderIn(dir.path)
      await appender.append(envelope({ ts: '2026-11-22T01:30:00+02:00' }))
      await appender.append(envelope({ ts: '2026-11-20T22:30:00-05:00' }))
      await appender.close()
      expect(spansOf(dir.path)).to.have.length(2)
    })

    it('loses no line at midnight', async () => {
      const appender = appenderIn(dir.path)
      const start = Date.parse('2026-11-21T23:59:59.950Z')
      const records = Array.from({ length: 100 }, (_, i) =>
        envelope({ ts: new Date(start + i).toISOString() }),
      )
      await Promise.all(records.map((record) => appender.append(record)))
      await appender.close()
      const spans = [...spansOf(dir.path), ...spansOf(dir.path, 'audit-2026-11-22.ndjson')]
      expect(spans).to.deep.equal(records.map((record) => record.span_id))
      expect(spansOf(dir.path)).to.have.length(50)
    })

    it('appends a late record to the file of its day', async () => {
      const appender = appenderIn(dir.path, { limits: { logHandles: 1 } })
      for (const day of ['19', '20', '21', '19'])
        await appender.append(envelope({ ts: `2026-11-${day}T10:00:00Z` }))
      await appender.close()
      expect(spansOf(dir.path, 'audit-2026-11-19.ndjson')).to.have.length(2)
    })
  })

  describe('raw payloads', () => {
    const record = {
      ts: `${DAY}T10:00:00Z`,
      trace_id: 'aa',
      span_id: 'bb',
      runId: 'r',
      tenant: 'acme',
      direction: 'input',
      payload_preview: '{"a":1}\n',
      payload_truncated: false,
      payload_bytes: 8,
    }

    it('go to the raw dataset, one canonical line each', async () => {
      const appender = appenderIn(dir.path, { config: { presign } })
      await appender.appendRawPayload(record)
      await appender.close()
      expect(linesOf(dir.path, `raw/raw-${DAY}.ndjson`).map((line) => JSON.parse(line))).to.deep.equal([
        record,
      ])
    })

    it('are refused without config.presign', async () => {
      const appender = appenderIn(dir.path)
      expect(await codeOf(appender.appendRawPayload(record))).to.equal('presign_required')
      await appender.close()
    })
  })

  describe('construction refuses', () => {
    for (const [title, config, path] of [
      ['an empty dir', { dir: '', retentionDays: 1 }, 'dir'],
      ['negative retention', { dir: 'x', retentionDays: -1 }, 'retentionDays'],
      ['retention that is no number', { dir: 'x', retentionDays: Number.NaN }, 'retentionDays'],
      [
        'an auditKey without scheme word',
        { dir: 'x', retentionDays: 1, presign: { ...presign, auditKey: 'raw-secret-key' } },
        'presign.auditKey',
      ],
    ] as const) {
      it(title, () => {
        expect(() => new SvcAppender({ config, signer }))
          .to.throw(path)
          .with.property('code', 'bad_config')
      })
    }

    it('without quoting the secret', () => {
      const config = { dir: 'x', retentionDays: 1, presign: { ...presign, auditKey: 'raw-secret-key' } }
      expect(() => new SvcAppender({ config, signer }))
        .to.throw()
        .with.property('message')
        .that.does.not.include('raw-')
    })
  })

  describe('a directory that cannot be used', () => {
    it('rejects ready and append with the reason, and retries later', async () => {
      const path = join(dir.path, 'taken')
      writeFileSync(path, 'a file stands here')
      const appender = appenderIn(path)
      expect(await codeOf(appender.ready())).to.equal('open_failed')
      expect(await codeOf(appender.append(envelope()))).to.equal('open_failed')
      expect(appender.status()).to.include({ writable: false, failed: 1 })
      await appender.close()
    })

    for (const [name, type] of [
      ['NFS', 0x6969],
      ['FUSE', 0x65735546],
      ['CIFS, given as a signed word', 0xff534d42 | 0],
    ] as const) {
      it(`is one on ${name}`, async () => {
        const appender = appenderIn(dir.path, { fileSystem: diskWith({ statfsSync: () => ({ type }) }) })
        expect(await codeOf(appender.ready())).to.equal('not_local')
        await appender.close()
      })
    }
  })

  describe('memory', () => {
    it('is bounded: beyond the limit append rejects, and works again when the disk has caught up', async () => {
      const ends: (() => void)[] = []
      let held = true
      const fileSystem = diskWith({
        fdatasync: (fd, done) => {
          if (held) ends.push(() => nodeFileSystem.fdatasync(fd, done))
          else nodeFileSystem.fdatasync(fd, done)
        },
      })
      const appender = appenderIn(dir.path, {
        fileSystem,
        limits: { maxPendingBytes: 8_000, batchBytes: 2_000 },
      })
      const appends = Array.from({ length: 50 }, () => appender.append(envelope()))
      const outcomes = Promise.allSettled(appends)
      expect(appender.status().pendingBytes).to.be.within(4_000, 8_000)
      expect(appender.status().failed).to.be.greaterThan(0)
      while (ends.length === 0) await new Promise((resolve) => setImmediate(resolve))
      held = false
      for (const end of ends) end()
      const refused = (await outcomes).flatMap((end) => (end.status === 'rejected' ? [end.reason] : []))
      for (const reason of refused) expect(reason).to.be.instanceOf(AuditBackpressureError)
      await appender.append(envelope())
      await appender.close()
      expect(recordsOf(dir.path)).to.have.length(50 - refused.length + 1)
    })

    it('allows a record larger than a batch', async () => {
      const appender = appenderIn(dir.path, { limits: { batchBytes: 1_000 } })
      await appender.append(envelope({ agentVariables: { text: 'ü'.repeat(5_000) } }))
      await appender.append(envelope())
      await appender.close()
      expect(recordsOf(dir.path)).to.have.length(2)
    })
  })

  describe('flush and close', () => {
    it('flush resolves when all earlier records are on disk', async () => {
      const appender = appenderIn(dir.path)
      const appended = Promise.all([appender.append(envelope()), appender.append(envelope())])
      await appender.flush()
      expect(recordsOf(dir.path)).to.have.length(2)
      await appended
      await appender.close()
    })

    it('close writes what was appended, may be called again, and ends appending', async () => {
      const appender = appenderIn(dir.path)
      const appended = appender.append(envelope())
      await Promise.all([appender.close(), appender.close()])
      await appended
      expect(recordsOf(dir.path)).to.have.length(1)
      expect(await codeOf(appender.append(envelope()))).to.equal('closed')
      expect(await codeOf(appender.ready())).to.equal('closed')
      expect(appender.status().writable).to.equal(false)
    })

    it('close is safe on an appender that never opened', async () => {
      await appenderIn(join(dir.path, 'never')).close()
      expect(existsSync(join(dir.path, 'never'))).to.equal(false)
    })
  })

  describe('the file public-keys', () => {
    it('lists each signing key once', async () => {
      for (let i = 0; i < 2; i++) {
        const appender = appenderIn(dir.path)
        await appender.append(envelope())
        await appender.close()
      }
      expect(readFileSync(join(dir.path, 'public-keys'), 'utf8')).to.equal(
        `${publicKeyLine(signer.publicKey)}\n`,
      )
    })

    it('is not created for a signer without public key', async () => {
      const minimal = {
        keyId: signer.keyId,
        sign: (data: Uint8Array) => signer.sign(data),
        verify: () => true,
      }
      const appender = appenderIn(dir.path, { signer: minimal })
      await appender.append(envelope())
      await appender.close()
      expect(existsSync(join(dir.path, 'public-keys'))).to.equal(false)
    })
  })

  describe('retention', () => {
    const old = ['audit-2026-11-10.ndjson', 'audit-2026-11-10.ndjson.torn-20261110T120000000Z']
    const kept = [
      'audit-2026-11-19.ndjson',
      'audit-2026-11-21.ndjson',
      'audit-2026-12-01.ndjson',
      'notes.txt',
    ]

    beforeEach(() => {
      for (const name of [...old, ...kept]) writeFileSync(join(dir.path, name), '{}\n')
      for (const day of ['2026-11-10', '2026-11-21']) {
        for (const path of [`agents/n/${day}`, `agents/only-${day}/${day}`]) {
          nodeFileSystem.mkdirSync(join(dir.path, path), { recursive: true, mode: 0o700 })
          writeFileSync(join(dir.path, path, 'r.ndjson'), '{}\n')
        }
      }
    })

    it('removes only older files at open', async () => {
      const appender = appenderIn(dir.path, { config: { retentionDays: 2 } })
      await appender.ready()
      await appender.close()
      expect(
        [...old, 'agents/n/2026-11-10', 'agents/only-2026-11-10'].filter((name) =>
          existsSync(join(dir.path, name)),
        ),
      ).to.deep.equal([])
      for (const name of [...kept, 'agents/n/2026-11-21/r.ndjson']) {
        expect(existsSync(join(dir.path, name)), name).to.equal(true)
      }
    })

    it('never removes the current day, even with no days of retention', async () => {
      const appender = appenderIn(dir.path, { config: { retentionDays: 0 } })
      await appender.ready()
      await appender.close()
      expect(existsSync(join(dir.path, `audit-${DAY}.ndjson`))).to.equal(true)
      expect(existsSync(join(dir.path, 'audit-2026-11-19.ndjson'))).to.equal(false)
    })

    it('keeps everything while presign is configured, and warns', async () => {
      const logger = memoryLogger()
      const appender = appenderIn(dir.path, { logger, config: { retentionDays: 2, presign } })
      await appender.ready()
      await appender.close()
      expect(existsSync(join(dir.path, old[0] ?? ''))).to.equal(true)
      expect(logger.entries.map((entry) => entry.message).join()).to.include('only once uploaded')
    })

    it('does not lose a record for a file that another process has just removed', async () => {
      const first = appenderIn(dir.path, { config: { retentionDays: 30 } })
      await first.append(envelope({ ts: '2026-11-15T10:00:00Z' }))
      const second = appenderIn(dir.path, { config: { retentionDays: 2 } })
      await second.ready()
      await second.close()
      await first.append(envelope({ ts: '2026-11-15T11:00:00Z' }))
      await first.close()
      expect(spansOf(dir.path, 'audit-2026-11-15.ndjson')).to.have.length(1)
    })

    it('runs again when a new day begins', async () => {
      const clock = fixedClock()
      const timers = sinon.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
      try {
        const appender = appenderIn(dir.path, { clock, config: { retentionDays: 2 } })
        await appender.ready()
        timers.tick(3_600_000)
        expect(existsSync(join(dir.path, 'audit-2026-11-19.ndjson'))).to.equal(true)
        clock.ms += 86_400_000
        timers.tick(3_600_000)
        await appender.close()
        expect(existsSync(join(dir.path, 'audit-2026-11-19.ndjson'))).to.equal(false)
      } finally {
        timers.restore()
      }
    })
  })

  it('rejects with the typed error of canonical JSON, with the path', async () => {
    const appender = appenderIn(dir.path)
    const error = await appender
      .append(envelope({ agentVariables: { f: () => 1 } }))
      .then(null, (reason) => reason)
    expect(error).to.be.instanceOf(CanonicalJsonError)
    expect(error.path).to.equal('$.agentVariables.f')
    await appender.close()
  })
})
