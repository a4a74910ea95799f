import { statSync } from 'node:fs'
import { join } from 'node:path'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import { expect } from 'chai'
import { signalled } from '../../../../support/signalled.js'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import {
  appenderIn,
  codeOf,
  DAY,
  diskWith,
  envelope,
  linesOf,
  recordsOf,
  signer,
  spansOf,
} from './records.js'

const nextTurn = () => new Promise((resolve) => setImmediate(resolve))

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

    it('reads the record during the call, even before the log is open', async () => {
      const appender = appenderIn(dir.path)
      const record = envelope({ agentVariables: { n: 1 } })
      const appended = appender.append(record)
      record.tool = 'other@1'
      record.tenant = 'changed'
      Object.assign(record.agentVariables ?? {}, { n: 2 })
      await appended
      await appender.close()
      expect(recordsOf(dir.path)[0]).to.deep.include({
        tool: 'read@1.0.0',
        tenant: 'acme',
        agentVariables: { n: 1 },
      })
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
      await using appender = appenderIn(dir.path, { fileSystem })
      let resolved = false
      const appended = appender.append(envelope()).then(() => {
        resolved = true
      })
      while (ends.length === 0) await nextTurn()
      expect([spansOf(dir.path).length, resolved]).to.deep.equal([1, false])
      ends.pop()?.()
      await appended
    })

    it('shares one fdatasync among concurrent records', async () => {
      let syncs = 0
      const fileSystem = diskWith({
        fdatasync: (fd, done) => {
          syncs++
          nodeFileSystem.fdatasync(fd, done)
        },
      })
      await using appender = appenderIn(dir.path, { fileSystem })
      await Promise.all(Array.from({ length: 30 }, () => appender.append(envelope())))
      expect(syncs).to.equal(1)
      expect(appender.status()).to.include({ appended: 30, batches: 1, pendingBytes: 0, writable: true })
    })

    it('puts the records of neighbouring turns into one batch', async () => {
      await using appender = appenderIn(dir.path, { clock: { now: Date.now, monotonic: () => 0 } })
      await appender.ready()
      const appended: Promise<void>[] = []
      for (let turn = 0; turn < 8; turn++) {
        appended.push(appender.append(envelope()))
        await nextTurn()
      }
      await Promise.all(appended)
      expect(appender.status()).to.include({ appended: 8, batches: 1 })
    })

    it('begins the sync of a record at once if the one before it was alone', async () => {
      let syncs = 0
      const fileSystem = diskWith({
        fdatasync: (fd, done) => {
          syncs++
          nodeFileSystem.fdatasync(fd, done)
        },
      })
      await using appender = appenderIn(dir.path, { fileSystem })
      await appender.append(envelope())
      const alone = appender.append(envelope())
      expect(syncs).to.equal(2)
      const during = [appender.append(envelope()), appender.append(envelope())]
      expect(syncs).to.equal(2)
      await Promise.all([alone, ...during])
      const afterBatch = appender.append(envelope())
      expect(syncs).to.equal(3)
      await afterBatch
      expect(appender.status()).to.include({ appended: 5, batches: 4 })
    })

    it('writes a batch while records keep coming', async () => {
      let ms = 0
      await using appender = appenderIn(dir.path, { clock: { now: Date.now, monotonic: () => ms } })
      await appender.ready()
      let inFirstBatch = 0
      const appended = [
        appender.append(envelope()).then(() => {
          inFirstBatch = appender.status().appended
        }),
      ]
      while (inFirstBatch === 0) {
        ms++
        appended.push(appender.append(envelope()))
        await nextTurn()
      }
      expect(inFirstBatch).to.be.within(1, 5)
      await Promise.all(appended)
    })

    it('keeps the order of the calls', async () => {
      const appender = appenderIn(dir.path, { limits: { batchBytes: 3_000 } })
      const records = Array.from({ length: 40 }, () => envelope())
      await Promise.all(records.map((record) => appender.append(record)))
      await appender.close()
      expect(spansOf(dir.path)).to.deep.equal(records.map((record) => record.span_id))
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

    it('signs through signAsync if the signer has it', async () => {
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
      const { happened: asked, resolve: give } = signalled()
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

  it('appends through an unbound function, and completes records from presign', async () => {
    const metadata = { tenant: 'acme', environment: 'prod', clientName: 'shop', clientVersion: '2' }
    const presign = { apiBaseUrl: 'http://127.0.0.1:9', auditKey: 'Bearer k', ...metadata }
    const log = appenderIn(dir.path, { config: { presign }, onAsyncError: () => undefined })
    const { append } = log
    await append(envelope({ client_name: 'desk' }))
    await log.close()
    const wanted = { environment: 'prod', client_name: 'desk', client_version: '2' }
    expect(recordsOf(dir.path)[0]).to.include(wanted)
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
      await using appender = appenderIn(dir.path)
      expect(await codeOf(appender.appendRawPayload(record))).to.equal('presign_required')
    })
  })
})
