import {
  closeSync,
  constants,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import { expect } from 'chai'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { appenderIn, DAY, diskWith, ioError, linesOf } from '../writer/records.js'
import { append } from './rig.js'
import { journalOf, sealedLog } from './sealed-log.js'

const locks = createRequire(createRequire(import.meta.url).resolve('@svc/plugin-audit'))(
  'fs-native-extensions',
)
const LOG = `audit-${DAY}.ndjson`
const BEFORE = '2026-11-20'

describe('the sealer with errors and several writers', () => {
  const dir = temporaryDir()
  const path = (name: string) => join(dir.path, name)

  function watched(options: Parameters<typeof appenderIn>[1] = {}) {
    const errors: Error[] = []
    const appender = appenderIn(dir.path, { ...options, onAsyncError: (error) => errors.push(error) })
    return { appender, errors, messages: () => errors.map(({ message }) => message) }
  }

  it('writes the journal and checkpoints under the lock, completely or not at all', async () => {
    const writers = openSync(path('.svc-lock'), 'a+')
    const opened = new Map<number, string>()
    const states: [string, boolean][] = []
    let isShort = false
    const isFree = () => {
      const got: boolean = locks.tryLock(writers)
      if (got) locks.unlock(writers)
      return got
    }
    const fileSystem = diskWith({
      openSync: (file, flags, mode) => {
        const fd = nodeFileSystem.openSync(file, flags, mode)
        const name = file.split('/').at(-1) ?? ''
        if (/journal|checkpoint/.test(name) && flags !== constants.O_RDONLY) opened.set(fd, name)
        else opened.delete(fd)
        return fd
      },
      writeSync: (fd, bytes, offset, length, position) => {
        const name = opened.get(fd)
        if (name === undefined) return nodeFileSystem.writeSync(fd, bytes, offset, length, position)
        states.push([name.replace(/.*\./, ''), isFree()])
        if (!isShort) return nodeFileSystem.writeSync(fd, bytes, offset, length, position)
        if (offset > 0) throw ioError('ENOSPC')
        return nodeFileSystem.writeSync(fd, bytes, offset, length >> 1, position)
      },
      ftruncateSync: (fd, length) => {
        if (opened.has(fd) && isShort) states.push(['cut back', isFree()])
        nodeFileSystem.ftruncateSync(fd, length)
      },
    })
    const { appender, messages } = watched({ fileSystem })
    await append(appender, 2)
    const before = readFileSync(path('audit.journal'))
    states.length = 0
    isShort = true
    await appender.seal()
    expect(messages()).to.deep.equal(['ENOSPC: made by a test'])
    expect(appender.status().sealing?.error?.message).to.equal('ENOSPC: made by a test')
    expect(states).to.deep.equal([
      ['journal', false],
      ['journal', false],
      ['cut back', false],
    ])
    expect(readFileSync(path('audit.journal'))).to.deep.equal(before)
    isShort = false
    states.length = 0
    await appender.seal()
    expect(states).to.deep.equal([
      ['journal', false],
      ['checkpoint', false],
    ])
    expect(appender.status().sealing?.error).to.equal(undefined)
    await appender.close()
    closeSync(writers)
    expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(2)
  })

  it('seals after a disk that failed at any one call', async () => {
    const calls = await callsOfSeal(undefined)
    expect(calls).to.be.above(6)
    for (let failing = 1; failing <= calls; failing++) {
      for (const name of nodeFileSystem.readdirSync(dir.path)) rmSync(path(name), { recursive: true })
      await callsOfSeal(failing)
      const { sealed, checkpoints, size } = sealedLog(dir.path)
      expect(sealed.get(DAY), `call ${failing} failed`).to.equal(6)
      expect(checkpoints.at(-1)?.size).to.equal(size)
    }
  })

  /** The number of calls that write or sync during a seal, of which one fails; afterwards all is sealed. */
  async function callsOfSeal(failing: number | undefined): Promise<number> {
    let calls = Number.NEGATIVE_INFINITY
    const isDue = () => ++calls === failing
    const fileSystem = diskWith({
      writeSync: (fd, bytes, offset, length, position) => {
        if (isDue()) throw ioError('ENOSPC')
        return nodeFileSystem.writeSync(fd, bytes, offset, length, position)
      },
      fsync: (fd, done) => (isDue() ? done(ioError('EIO')) : nodeFileSystem.fsync(fd, done)),
      fsyncSync: (fd) => {
        if (isDue()) throw ioError('EIO')
        nodeFileSystem.fsyncSync(fd)
      },
    })
    const { appender, errors } = watched({ fileSystem })
    await append(appender, 3)
    await appender.seal()
    await append(appender, 3)
    calls = 0
    await appender.seal()
    const counted = calls
    calls = Number.NEGATIVE_INFINITY
    if (failing !== undefined) expect(errors).to.have.length(1)
    await appender.seal()
    await appender.close()
    return counted
  }

  it('seals for all appenders in one of them, and another takes over', async () => {
    const [first, second] = [appenderIn(dir.path), appenderIn(dir.path)]
    await append(first, 1)
    await first.seal()
    await append(second, 2)
    await second.seal()
    expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(1)
    await first.seal()
    await append(second, 1)
    await first.close()
    await append(second, 1)
    await second.seal()
    await second.close()
    expect(sealedLog(dir.path).checkpoints.map(({ size }) => size)).to.deep.equal([1, 3, 6, 8, 10])
  })

  it('continues one tree when two seal at once because the file that elects one was deleted', async () => {
    const first = watched()
    await append(first.appender, 1)
    await first.appender.seal()
    rmSync(path('.svc-seal-lock'))
    const second = watched()
    await append(second.appender, 1)
    for (let round = 0; round < 10; round++) {
      await Promise.all([append(first.appender, 20), append(second.appender, 20)])
      await Promise.all([first.appender.seal(), second.appender.seal()])
    }
    await Promise.all([first.appender.close(), second.appender.close()])
    expect([...first.messages(), ...second.messages()]).to.deep.equal([])
    expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(402)
  })

  for (const [title, change, resume] of [
    ['is cut', () => truncateSync(path(LOG), lineEnd(2) + 7), 2],
    ['is missing', () => rmSync(path(LOG)), 0],
    ['was replaced by a shorter one', () => writeFileSync(path(LOG), '{"other":1}\n'), 0],
  ] as const) {
    it(`appends a fault line if a day ${title}, and seals what comes after`, async () => {
      const first = appenderIn(dir.path)
      await append(first, 5)
      await first.close()
      const sealed = statSync(path(LOG)).size
      const resumed = lineEnd(resume)
      change()
      const second = watched()
      await append(second.appender, 3)
      await second.appender.seal()
      await second.appender.seal()
      expect(second.messages()).to.have.length(1)
      expect(second.messages()[0]).to.match(/was changed after it was sealed.*sealing continues/)
      await append(second.appender, 1)
      await second.appender.close()
      const journal = journalOf(dir.path)
      expect(journal.filter(({ kind }) => kind === 'fault')).to.have.length(1)
      expect(journal.find(({ kind }) => kind === 'fault')).to.include({ day: DAY, sealed, resume: resumed })
      // The last range covers the last record of the file.
      expect(journal.at(-1)!['ranges'].at(-1)[2]).to.equal(statSync(path(LOG)).size)
      expect(journal.findLast(({ kind }) => kind === 'seal')!['leaf']).to.be.above(0)
    })
  }

  it('does not notice a damaged byte of an old record while it goes on sealing', async () => {
    const first = appenderIn(dir.path)
    await append(first, 5)
    await first.close()
    const bytes = readFileSync(path(LOG))
    bytes[lineEnd(1) + 20]! ^= 1
    writeFileSync(path(LOG), bytes)
    const second = watched()
    await append(second.appender, 1)
    await second.appender.close()
    expect(second.messages()).to.deep.equal([])
    expect(() => sealedLog(dir.path)).to.throw('root of line 1')
  })

  it('retries after a signer failure', async () => {
    let failing = false
    const { signer } = await import('../writer/records.js')
    const { appender, messages } = watched({
      signer: {
        keyId: signer.keyId,
        publicKey: signer.publicKey,
        sign: (data) => {
          if (failing) throw new Error('the key is unavailable')
          return signer.sign(data)
        },
        verify: () => true,
      },
    })
    await append(appender, 1)
    failing = true
    await appender.seal()
    await appender.seal()
    expect(messages()).to.deep.equal(['the signer failed'])
    failing = false
    await appender.close()
    expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(1)
  })

  it('continues while retention removes days', async () => {
    let isListed = false
    const fileSystem = diskWith({
      readdirSync: (folder) => {
        const names = nodeFileSystem.readdirSync(folder)
        if (!isListed || folder !== dir.path) return names
        isListed = false
        return [...names, `audit-${BEFORE}.ndjson`]
      },
    })
    const { appender, errors } = watched({ fileSystem })
    await append(appender, 1)
    isListed = true
    await appender.seal()
    expect(isListed).to.equal(false)
    await appender.close()
    expect(errors).to.deep.equal([])
    expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(1)
  })

  /** Offset after the first `count` lines of the log. */
  function lineEnd(count: number): number {
    const lines = linesOf(dir.path, LOG).slice(0, count)
    return Buffer.byteLength(lines.map((line) => `${line}\n`).join(''))
  }
})
