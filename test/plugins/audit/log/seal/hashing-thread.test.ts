import { execFile } from 'node:child_process'
import { appendFileSync, closeSync, openSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Worker } from 'node:worker_threads'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import { hashPiece } from '@svc/plugin-audit/internal/log/seal/hash-piece'
import { HashingThread } from '@svc/plugin-audit/internal/log/seal/hashing-thread'
import { expect } from 'chai'
import { leashed } from '../../../../support/leash.js'
import { temporaryDir } from '../../temporary.js'
import { appenderIn, DAY, diskWith, memoryLogger } from '../writer/records.js'
import { append } from './rig.js'
import { sealedLog } from './sealed-log.js'

// More bytes than start the thread.
const LINES = 9_000
const LINE = `{"text":"${'x'.repeat(1_000)}"}\n`

describe('the hashing thread of a log', () => {
  const dir = temporaryDir()
  const log = () => join(dir.path, `audit-${DAY}.ndjson`)
  const config = { threads: 'on' } as const
  const started: Worker[] = []
  const onWorker = (worker: Worker) => started.push(worker)
  beforeEach(() => process.on('worker', onWorker))
  afterEach(() => {
    process.off('worker', onWorker)
    started.length = 0
  })

  const addLines = () => appendFileSync(log(), LINE.repeat(LINES))

  async function sealLarge(options: Parameters<typeof appenderIn>[1]) {
    const appender = appenderIn(dir.path, options)
    await append(appender, 1)
    addLines()
    await appender.seal()
    return appender
  }

  it('seals many records, as the event loop does', async () => {
    const appender = await sealLarge({ config })
    addLines()
    await append(appender, 10)
    await appender.seal()
    expect(started).to.have.length(1)
    await append(appender, 3)
    await appender.close()
    expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(2 * LINES + 14)
  })

  it('ends with the log', async () => {
    const appender = await sealLarge({ config })
    expect(started.map(({ threadId }) => threadId > 0)).to.deep.equal([true])
    await appender.close()
    expect(started.map(({ threadId }) => threadId)).to.deep.equal([-1])
  })

  it('does not start for few records, nor where threads are off', async () => {
    const quiet = appenderIn(dir.path, { config })
    for (let round = 0; round < 20; round++) {
      await append(quiet, 10)
      await quiet.seal()
    }
    await quiet.close()
    const off = await sealLarge({ config: { threads: 'off' } })
    await off.close()
    expect(started).to.have.length(0)
    expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(LINES + 201)
  })

  it('does not read in place of an injected file system', async () => {
    let read = 0
    const fileSystem = diskWith({
      read: (fd, buffer, offset, length, position, done) => {
        read += length
        nodeFileSystem.read(fd, buffer, offset, length, position, done)
      },
    })
    const appender = await sealLarge({ config, fileSystem })
    await appender.close()
    expect(started).to.have.length(0)
    expect(read).to.be.at.least(statSync(log()).size)
  })

  for (const [when, end] of [
    ['before it runs', (worker: Worker) => void worker.terminate()],
    ['while it runs', (worker: Worker) => worker.once('online', () => void worker.terminate())],
  ] as const) {
    it(`is replaced by the event loop for good when it dies ${when}, which is logged once`, async () => {
      process.once('worker', end)
      const logger = memoryLogger()
      const appender = await sealLarge({ config, logger })
      addLines()
      await appender.close()
      expect(appender.status().sealing?.error).to.equal(undefined)
      expect(started).to.have.length(1)
      expect(
        logger.entries.filter(({ level }) => level === 'error').map(({ message }) => message),
      ).to.deep.equal(['the hashing thread has stopped; records are hashed on the event loop'])
      expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(2 * LINES + 1)
    })
  }

  it('leaves lines that it cannot hash to the event loop, and hashes the next ones', async () => {
    writeFileSync(log(), LINE.repeat(LINES))
    const { size } = statSync(log())
    const logger = memoryLogger()
    const thread = new HashingThread(logger)
    const fd = openSync(log(), 'r')
    try {
      expect(await thread.hash(fd, { from: size, to: 2 * size, leaf: 0 })).to.equal(undefined)
      const source = { from: LINE.length, to: size, leaf: 4_000 }
      const here = await hashPiece(nodeFileSystem, fd, source)
      const there = await thread.hash(fd, source)
      expect(there).to.include({ lines: 96, end: here.end })
      for (const name of ['leaves', 'roots'] as const) {
        expect(Buffer.from(there![name]).equals(here[name]), name).to.equal(true)
      }
    } finally {
      await thread.close()
      closeSync(fd)
    }
    expect(logger.entries).to.deep.equal([])
  })

  it('keeps a process alive until the seal is done, and no longer', async () => {
    const program = `
      import { appendFileSync } from 'node:fs'
      import { LocalDevSigner, SvcAppender } from '@svc/plugin-audit/log'
      const [dir, line] = process.argv.slice(1)
      let threads = 0
      process.on('worker', () => threads++)
      const signer = LocalDevSigner.fromSeed(new Uint8Array(32).fill(7))
      const log = new SvcAppender({ config: { dir, retentionDays: 9999, threads: 'on' }, signer })
      await log.ready()
      appendFileSync(dir + '/audit-${DAY}.ndjson', (line + '\\n').repeat(${LINES}))
      await log.seal()
      console.log(threads, log.status().sealing.size)`
    const running = promisify(execFile)(process.execPath, [
      '--input-type=module',
      '-e',
      program,
      dir.path,
      LINE.trimEnd(),
    ])
    leashed(running.child)
    const { stdout } = await running
    expect(stdout.trim()).to.equal(`1 ${LINES + 2}`)
  })
})
