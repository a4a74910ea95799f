import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import { publicKeyLine } from '@svc/plugin-audit/internal/log/format/verifier'
import { AuditBackpressureError, SvcAppender } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import sinon from 'sinon'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import {
  appenderIn,
  codeOf,
  DAY,
  diskWith,
  envelope,
  fixedClock,
  memoryLogger,
  recordsOf,
  signer,
  spansOf,
} from './records.js'

const presign = { apiBaseUrl: 'http://127.0.0.1:9', auditKey: 'Bearer k' }

describe('SvcAppender', () => {
  const dir = temporaryDir()

  describe('construction refuses', () => {
    for (const [title, config, path] of [
      ['an empty dir', { dir: '', retentionDays: 1 }, 'dir'],
      ['negative retention', { dir: 'x', retentionDays: -1 }, 'retentionDays'],
      ['retention that is not a number', { dir: 'x', retentionDays: Number.NaN }, 'retentionDays'],
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
      await using appender = appenderIn(path)
      expect(await codeOf(appender.ready())).to.equal('open_failed')
      expect(await codeOf(appender.append(envelope()))).to.equal('open_failed')
      expect(appender.status()).to.include({ writable: false, failed: 1 })
    })

    for (const [name, type] of [
      ['NFS', 0x6969],
      ['FUSE', 0x65735546],
      ['CIFS, given as a signed word', 0xff534d42 | 0],
    ] as const) {
      it(`is one on ${name}`, async () => {
        await using appender = appenderIn(dir.path, {
          fileSystem: diskWith({ statfsSync: () => ({ type }) }),
        })
        expect(await codeOf(appender.ready())).to.equal('not_local')
      })
    }

    for (const [name, type, expected] of [
      ['an unknown one, with a warning', 0x1badface, ['warn 0x1badface']],
      ['ext4, without', 0xef53, []],
    ] as const) {
      it(`is not one on a file system that is ${name}`, async () => {
        const logger = memoryLogger()
        const fileSystem = diskWith({ statfsSync: () => ({ type, bavail: 2 ** 40, bsize: 4096 }) })
        const appender = appenderIn(dir.path, { fileSystem, logger })
        await appender.ready()
        await appender.close()
        const about = logger.entries.filter(({ message }) => message.includes('locks may be invisible'))
        expect(about.map(({ level, fields }) => `${level} ${fields['magic']}`)).to.deep.equal(expected)
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
      await using appender = appenderIn(dir.path)
      const appended = Promise.all([appender.append(envelope()), appender.append(envelope())])
      await appender.flush()
      expect(recordsOf(dir.path)).to.have.length(2)
      await appended
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
        await using appender = appenderIn(dir.path)
        await appender.append(envelope())
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

  describe('retention without checkpoints', () => {
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
      const appender = appenderIn(dir.path, { config: { retentionDays: 2, checkpoints: false } })
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

    it('keeps at least one day', async () => {
      expect(() => appenderIn(dir.path, { config: { retentionDays: 0 } })).to.throw('1 or more')
      const appender = appenderIn(dir.path, { config: { retentionDays: 1, checkpoints: false } })
      await appender.ready()
      await appender.close()
      expect(existsSync(join(dir.path, `audit-${DAY}.ndjson`))).to.equal(true)
      expect(existsSync(join(dir.path, 'audit-2026-11-19.ndjson'))).to.equal(false)
    })

    it('keeps everything while presign is configured, and warns', async () => {
      const logger = memoryLogger()
      const appender = appenderIn(dir.path, {
        logger,
        config: { retentionDays: 2, checkpoints: false, presign },
      })
      await appender.ready()
      await appender.close()
      expect(existsSync(join(dir.path, old[0] ?? ''))).to.equal(true)
      expect(logger.entries.map((entry) => entry.message).join()).to.include('only once uploaded')
    })

    it('does not lose a record for a file that another process has just removed', async () => {
      const first = appenderIn(dir.path, { config: { retentionDays: 30, checkpoints: false } })
      await first.append(envelope({ ts: '2026-11-15T10:00:00Z' }))
      const second = appenderIn(dir.path, { config: { retentionDays: 2, checkpoints: false } })
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
        const appender = appenderIn(dir.path, { clock, config: { retentionDays: 2, checkpoints: false } })
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
})
