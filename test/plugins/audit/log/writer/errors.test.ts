import { appendFileSync, constants, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { runInNewContext } from 'node:vm'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import { expect } from 'chai'
import sinon from 'sinon'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import {
  appenderIn,
  codeOf,
  DAY,
  diskWith,
  envelope,
  ioError as error,
  memoryLogger,
  recordsOf,
  spansOf,
} from './records.js'

const file = `audit-${DAY}.ndjson`

/** A disk whose writes to the daily log, and of the probe, go through `write`. */
function diskWriting(write: typeof nodeFileSystem.writeSync) {
  const logs = new Set<number>()
  return diskWith({
    openSync: (path, flags, mode) => {
      const fd = nodeFileSystem.openSync(path, flags, mode)
      if (path.endsWith('.svc-probe') || (path.endsWith(file) && flags & constants.O_APPEND)) logs.add(fd)
      else logs.delete(fd)
      return fd
    },
    writeSync: (fd, buffer, offset, length, position) =>
      logs.has(fd)
        ? write(fd, buffer, offset, length, position)
        : nodeFileSystem.writeSync(fd, buffer, offset, length, position),
  })
}

describe('SvcAppender on a disk that fails', () => {
  const dir = temporaryDir()

  it('reads the codes of errors where Error is another one than that of Node, as in a test runner', async () => {
    const own = globalThis.Error
    globalThis.Error = runInNewContext('Error')
    try {
      await using appender = appenderIn(dir.path)
      await appender.append(envelope())
    } finally {
      globalThis.Error = own
    }
    expect(recordsOf(dir.path)).to.have.length(1)
  })

  it('completes short writes', async () => {
    let calls = 0
    const fileSystem = diskWriting((fd, buffer, offset, length, position) => {
      calls++
      return nodeFileSystem.writeSync(fd, buffer, offset, Math.min(length, 211), position)
    })
    const appender = appenderIn(dir.path, { fileSystem })
    const records = Array.from({ length: 5 }, () => envelope())
    await Promise.all(records.map((record) => appender.append(record)))
    await appender.close()
    expect(calls).to.be.greaterThan(5)
    expect(spansOf(dir.path)).to.deep.equal(records.map((record) => record.span_id))
  })

  for (const code of ['ENOSPC', 'EIO', 'EDQUOT']) {
    it(`truncates a batch that fails with ${code} in the middle, rejects it, and continues`, async () => {
      let failing = false
      let written = 0
      const fileSystem = diskWriting((fd, buffer, offset, length, position) => {
        if (!failing) return nodeFileSystem.writeSync(fd, buffer, offset, length, position)
        if (written > 0) throw error(code)
        written = nodeFileSystem.writeSync(fd, buffer, offset, 300, position)
        return written
      })
      const appender = appenderIn(dir.path, { fileSystem })
      const first = envelope()
      await appender.append(first)
      failing = true
      const ends = await Promise.all([
        codeOf(appender.append(envelope())),
        codeOf(appender.append(envelope())),
      ])
      expect(ends).to.deep.equal(['write_failed', 'write_failed'])
      expect(appender.status()).to.include({ writable: false, appended: 1, failed: 2, pendingBytes: 0 })
      expect(spansOf(dir.path)).to.deep.equal([first.span_id])
      failing = false
      const last = envelope()
      await appender.append(last)
      expect(appender.status().writable).to.equal(true)
      await appender.close()
      expect(spansOf(dir.path)).to.deep.equal([first.span_id, last.span_id])
    })
  }

  it('treats a write of zero bytes as a full disk instead of retrying forever', async () => {
    await using appender = appenderIn(dir.path, { fileSystem: diskWriting(() => 0) })
    expect(await codeOf(appender.append(envelope()))).to.equal('write_failed')
  })

  it('moves bytes aside that could not be truncated, before the next write', async () => {
    let failing = true
    const fileSystem = diskWith({
      ...diskWriting((fd, buffer, offset, length, position) => {
        if (!failing) return nodeFileSystem.writeSync(fd, buffer, offset, length, position)
        nodeFileSystem.writeSync(fd, buffer, offset, 250, position)
        throw error('EIO')
      }),
      ftruncateSync: (fd, length) => {
        if (failing) throw error('EIO')
        nodeFileSystem.ftruncateSync(fd, length)
      },
    })
    const logger = memoryLogger()
    const appender = appenderIn(dir.path, { fileSystem, logger })
    failing = false
    await appender.ready()
    failing = true
    expect(await codeOf(appender.append(envelope()))).to.equal('write_failed')
    failing = false
    await appender.append(envelope())
    await appender.close()
    expect(recordsOf(dir.path)).to.have.length(1)
    expect(readdirSync(dir.path).filter((name) => name.startsWith(`${file}.torn-`))).to.have.length(1)
  })

  it('rejects the records of a failed fdatasync, and continues through a new handle', async () => {
    let failing = true
    const synced: number[] = []
    const opened: number[] = []
    const fileSystem = diskWith({
      openSync: (path, flags, mode) => {
        const fd = nodeFileSystem.openSync(path, flags, mode)
        if (path.endsWith(file) && flags & constants.O_APPEND) opened.push(fd)
        return fd
      },
      fdatasync: (fd, done) => {
        synced.push(fd)
        if (failing) setImmediate(() => done(error('EIO')))
        else nodeFileSystem.fdatasync(fd, done)
      },
    })
    const appender = appenderIn(dir.path, { fileSystem })
    expect(await codeOf(appender.append(envelope()))).to.equal('sync_failed')
    expect(appender.status()).to.include({ writable: false, failed: 1 })
    failing = false
    await appender.append(envelope())
    expect(appender.status().writable).to.equal(true)
    await appender.close()
    expect(opened).to.have.length(2)
    // Nothing is rewritten: the rejected record may be in the file, and the acknowledged one is.
    expect(recordsOf(dir.path)).to.have.length(2)
  })

  it('does not reject records that arrived during the failing fdatasync', async () => {
    const ends: (() => void)[] = []
    const fileSystem = diskWith({
      fdatasync: (fd, done) => {
        if (ends.length === 0) ends.push(() => done(error('EIO')))
        else nodeFileSystem.fdatasync(fd, done)
      },
    })
    const appender = appenderIn(dir.path, { fileSystem })
    const first = codeOf(appender.append(envelope()))
    while (ends.length === 0) await new Promise((resolve) => setImmediate(resolve))
    const later = envelope()
    const second = codeOf(appender.append(later))
    ends[0]?.()
    expect(await Promise.all([first, second])).to.deep.equal(['sync_failed', 'resolved'])
    await appender.close()
    expect(spansOf(dir.path)).to.include(later.span_id)
  })

  it('syncs the folder of a new file before its first record counts as durable', async () => {
    const calls: string[] = []
    const fileSystem = diskWith({
      fdatasync: (fd, done) => {
        calls.push('file')
        nodeFileSystem.fdatasync(fd, done)
      },
      fsync: (fd, done) => {
        calls.push('folder')
        nodeFileSystem.fsync(fd, done)
      },
    })
    await using appender = appenderIn(dir.path, { fileSystem })
    await appender.ready()
    calls.length = 0
    await appender.append(envelope())
    expect(calls).to.deep.equal(['file', 'folder'])
    await appender.append(envelope())
    expect(calls).to.deep.equal(['file', 'folder', 'file'])
  })

  it('detects that the disk works again', async () => {
    const timers = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      let failing = true
      const fileSystem = diskWriting((fd, buffer, offset, length, position) => {
        if (failing) throw error('ENOSPC')
        return nodeFileSystem.writeSync(fd, buffer, offset, length, position)
      })
      const appender = appenderIn(dir.path, { fileSystem })
      expect(await codeOf(appender.append(envelope()))).to.equal('write_failed')
      await timers.tickAsync(1_000)
      expect(appender.status().writable).to.equal(false)
      failing = false
      await timers.tickAsync(1_000)
      expect(appender.status().writable).to.equal(true)
      await appender.close()
      expect(existsSync(join(dir.path, '.svc-probe'))).to.equal(false)
    } finally {
      timers.restore()
    }
  })

  describe('a torn line', () => {
    it('that is found at open is moved aside and logged, and complete lines stay', async () => {
      const first = appenderIn(dir.path)
      const record = envelope()
      await first.append(record)
      await first.close()
      appendFileSync(join(dir.path, file), '{"torn":')
      const logger = memoryLogger()
      const second = appenderIn(dir.path, { logger })
      await second.ready()
      await second.close()
      expect(spansOf(dir.path)).to.deep.equal([record.span_id])
      const aside = readdirSync(dir.path).filter((name) => name.includes('.torn-'))
      expect(aside).to.deep.equal([`${file}.torn-20261121T120000000Z`])
      expect(readFileSync(join(dir.path, aside[0] ?? ''), 'utf8')).to.equal('{"torn":')
      expect(logger.entries[0]).to.deep.include({ level: 'warn' })
      expect(logger.entries[0]?.fields).to.include({ bytes: 8 })
    })

    it('longer than the search window, without any complete line, leaves an empty log', async () => {
      const appender = appenderIn(dir.path)
      await appender.ready()
      writeFileSync(join(dir.path, file), 'x'.repeat(200_000))
      await appender.append(envelope())
      await appender.close()
      expect(recordsOf(dir.path)).to.have.length(1)
    })

    it('that another process leaves never joins two lines', async () => {
      const appender = appenderIn(dir.path)
      await appender.append(envelope())
      appendFileSync(join(dir.path, file), '{"torn":')
      await appender.append(envelope())
      appendFileSync(join(dir.path, file), '{"torn again":')
      await appender.append(envelope())
      await appender.close()
      expect(recordsOf(dir.path)).to.have.length(3)
      expect(readdirSync(dir.path).filter((name) => name.includes('.torn-'))).to.have.length(2)
    })
  })
})
