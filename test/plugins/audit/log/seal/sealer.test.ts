import {
  appendFileSync,
  closeSync,
  constants,
  existsSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import {
  type Checkpoint,
  parseCheckpoint,
  parseRemoval,
} from '@svc/plugin-audit/internal/log/seal/checkpoint'
import { notePieces } from '@svc/plugin-audit/internal/log/seal/note-file'
import { LocalDevSigner, SvcAppender, verifyLog } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import fc from 'fast-check'
import sinon from 'sinon'
import { temporaryDir } from '../../temporary.js'
import {
  appenderIn,
  DAY,
  diskWith,
  envelope,
  fault,
  fixedClock,
  linesOf,
  memoryLogger,
  signer,
} from '../writer/records.js'
import { openNote, treeRoot } from './independent-verifier.js'

const locks = createRequire(createRequire(import.meta.url).resolve('@svc/plugin-audit'))(
  'fs-native-extensions',
)
const BEFORE = '2026-11-20'
const on = (day: string) => envelope({ ts: `${day}T10:00:00Z` })

describe('the sealer', () => {
  const dir = temporaryDir()
  const path = (name: string) => join(dir.path, name)

  async function append(appender: SvcAppender, count: number, day = DAY): Promise<void> {
    await Promise.all(Array.from({ length: count }, () => appender.append(on(day))))
  }

  /** The checkpoints of a day, each proven by the independent verifier to be of the log as it stands. */
  function checkpointsOf(day = DAY, key = signer): Checkpoint[] {
    const lines = linesOf(dir.path, `audit-${day}.ndjson`)
    return notePieces(readFileSync(path(`audit-${day}.checkpoint`))).map(({ text, torn }) => {
      expect(torn).to.equal(false)
      const origin = `svc-audit/${key.keyId}/${day}`
      const checkpoint = parseCheckpoint(openNote(text, origin, key.publicKey))!
      expect(Buffer.from(checkpoint.root, 'binary')).to.deep.equal(treeRoot(lines.slice(0, checkpoint.size)))
      return checkpoint
    })
  }

  /** Resolves when the file is there. */
  async function made(name: string): Promise<void> {
    while (!existsSync(path(name))) await new Promise((resolve) => setImmediate(resolve))
  }

  it('signs new records once, on request and on close', async () => {
    const appender = appenderIn(dir.path)
    await append(appender, 3)
    await appender.seal()
    await appender.seal()
    await append(appender, 4)
    await appender.close()
    expect(checkpointsOf().map(({ size }) => size)).to.deep.equal([3, 7])
  })

  it('signs at every interval while there are new records', async () => {
    const timers = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const appender = appenderIn(dir.path, { config: { checkpoint: { intervalMs: 2_000 } } })
      await appender.ready()
      await append(appender, 2)
      timers.tick(1_999)
      await appender.flush()
      expect(existsSync(path(`audit-${DAY}.checkpoint`))).to.equal(false)
      timers.tick(1)
      await made(`audit-${DAY}.checkpoint`)
      expect(checkpointsOf().map(({ size }) => size)).to.deep.equal([2])
      await appender.close()
      expect(checkpointsOf()).to.have.length(1)
    } finally {
      timers.restore()
    }
  })

  it('signs after midnight, whatever the interval', async () => {
    const timers = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const clock = fixedClock(`${DAY}T23:59:59.000Z`)
      const appender = appenderIn(dir.path, { clock, config: { checkpoint: { intervalMs: 3_600_000 } } })
      await appender.ready()
      await append(appender, 1)
      timers.tick(1_100)
      await made(`audit-${DAY}.checkpoint`)
      await appender.close()
      expect(checkpointsOf()).to.have.length(1)
    } finally {
      timers.restore()
    }
  })

  it('can be turned off, and warns about a signer without public key', async () => {
    const off = appenderIn(dir.path, { config: { checkpoint: false } })
    await append(off, 1)
    await off.close()
    const logger = memoryLogger()
    const { keyId } = signer
    const sign = (data: Uint8Array) => signer.sign(data)
    const nameless = { keyId, sign, verify: () => true }
    const without = new SvcAppender({
      config: { dir: dir.path, retentionDays: 30 },
      signer: nameless,
      logger,
    })
    await append(without, 1)
    await without.close()
    expect(existsSync(path(`audit-${DAY}.checkpoint`))).to.equal(false)
    expect(logger.entries.map(({ level, message }) => `${level}: ${message}`)).to.deep.equal([
      'warn: the signer has no publicKey, so no checkpoints are written and removed records cannot be detected',
    ])
  })

  for (const intervalMs of [0, -1, Number.NaN, 2 ** 31]) {
    it(`refuses an interval of ${intervalMs} ms`, () => {
      expect(() => appenderIn(dir.path, { config: { checkpoint: { intervalMs } } })).to.throw(
        'checkpoint.intervalMs',
      )
    })
  }

  it('names the newest earlier head in the first checkpoint of a day, and seals earlier days that grow', async () => {
    const appender = appenderIn(dir.path)
    await append(appender, 2, BEFORE)
    await append(appender, 3)
    await appender.seal()
    await append(appender, 1, BEFORE)
    await append(appender, 1)
    await appender.close()
    const before = checkpointsOf(BEFORE)
    expect(before.map(({ size, prev }) => [size, prev])).to.deep.equal([
      [2, undefined],
      [3, undefined],
    ])
    const { day, size, root } = before[0]!
    expect(checkpointsOf().map((each) => [each.size, each.prev])).to.deep.equal([
      [3, { day, size, root }],
      [4, undefined],
    ])
  })

  it('seals the right days while the clock goes backwards over midnight', async () => {
    const clock = fixedClock(`${DAY}T00:00:01Z`)
    const appender = appenderIn(dir.path, { clock })
    await append(appender, 1)
    await appender.seal()
    clock.ms -= 5_000
    await append(appender, 2, BEFORE)
    await appender.seal()
    clock.ms += 10_000
    await append(appender, 1)
    await appender.close()
    expect(checkpointsOf(BEFORE).map(({ size }) => size)).to.deep.equal([2])
    expect(checkpointsOf().map(({ size }) => size)).to.deep.equal([1, 2])
  })

  it('resumes to the tree of a complete rebuild, wherever it stopped', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.tuple(fc.integer({ min: 1, max: 40 }), fc.constantFrom('keep', 'remove', 'garble', 'cut')),
          {
            minLength: 1,
            maxLength: 6,
          },
        ),
        async (stops) => {
          for (const name of [`audit-${DAY}.ndjson`, `audit-${DAY}.checkpoint`, `audit-${DAY}.tree`]) {
            rmSync(path(name), { force: true })
          }
          let size = 0
          for (const [count, tree] of stops) {
            const appender = appenderIn(dir.path)
            await append(appender, count)
            await appender.close()
            size += count
            expect(checkpointsOf().at(-1)?.size).to.equal(size)
            const file = path(`audit-${DAY}.tree`)
            if (tree === 'remove') rmSync(file)
            if (tree === 'garble') writeFileSync(file, Buffer.alloc(statSync(file).size, 7))
            if (tree === 'cut') truncateSync(file, statSync(file).size >> 1)
          }
          const resumed = existsSync(path(`audit-${DAY}.tree`))
            ? readFileSync(path(`audit-${DAY}.tree`))
            : undefined
          if (resumed === undefined || stops.at(-1)?.[1] !== 'keep') return
          rmSync(path(`audit-${DAY}.tree`))
          rmSync(path(`audit-${DAY}.checkpoint`))
          const scratch = appenderIn(dir.path)
          await scratch.ready()
          await scratch.close()
          expect(readFileSync(path(`audit-${DAY}.tree`))).to.deep.equal(resumed)
        },
      ),
      { numRuns: 15 },
    )
  })

  it('reads only new lines after a restart', async () => {
    const first = appenderIn(dir.path)
    await append(first, 200)
    await first.close()
    let read = 0
    const fileSystem = diskWith({
      read: (fd, buffer, offset, length, position, done) => {
        read += length
        nodeFileSystem.read(fd, buffer, offset, length, position, done)
      },
    })
    const second = appenderIn(dir.path, { fileSystem })
    await append(second, 1)
    await second.close()
    expect(checkpointsOf().map(({ size }) => size)).to.deep.equal([200, 201])
    expect(read).to.equal(linesOf(dir.path, `audit-${DAY}.ndjson`).at(-1)!.length + 1)
  })

  it('reads and writes the same amount for a line at the start and the end of a long day', async () => {
    let bytes = 0
    const fileSystem = diskWith({
      read: (fd, buffer, offset, length, position, done) => {
        bytes += length
        nodeFileSystem.read(fd, buffer, offset, length, position, done)
      },
      readSync: (fd, buffer, offset, length, position) => {
        bytes += length
        return nodeFileSystem.readSync(fd, buffer, offset, length, position)
      },
      writeSync: (fd, buffer, offset, length, position) => {
        bytes += length
        return nodeFileSystem.writeSync(fd, buffer, offset, length, position)
      },
    })
    const appender = appenderIn(dir.path, { fileSystem })
    const costOfOne = async () => {
      await append(appender, 1)
      bytes = 0
      await appender.seal()
      return bytes
    }
    await append(appender, 100)
    await appender.seal()
    const early = await costOfOne()
    for (let i = 0; i < 8; i++) await append(appender, 1_000)
    await appender.seal()
    const late = await costOfOne()
    await appender.close()
    expect(early).to.be.above(0)
    // The last notes are read, of which there are two more, and a path in the tree may be longer.
    expect(late).to.be.below(early + 3_000)
  })

  it('truncates a torn checkpoint of a sealer that died', async () => {
    const first = appenderIn(dir.path)
    await append(first, 2)
    await first.close()
    const whole = readFileSync(path(`audit-${DAY}.checkpoint`), 'utf8')
    appendFileSync(path(`audit-${DAY}.checkpoint`), whole.slice(0, -20))
    const second = appenderIn(dir.path)
    await append(second, 1)
    await second.close()
    expect(checkpointsOf().map(({ size }) => size)).to.deep.equal([2, 3])
  })

  it('writes and truncates a checkpoint under the lock', async () => {
    const writers = openSync(path('.svc-lock'), 'a+')
    const states: [string, boolean][] = []
    let checkpoints: number | undefined
    const isFree = () => {
      const got: boolean = locks.tryLock(writers)
      if (got) locks.unlock(writers)
      return got
    }
    const fileSystem = diskWith({
      openSync: (file, flags, mode) => {
        const fd = nodeFileSystem.openSync(file, flags, mode)
        if (file.endsWith('.checkpoint') && flags !== constants.O_RDONLY) checkpoints = fd
        return fd
      },
      writeSync: (fd, bytes, offset, length, position) => {
        if (fd !== checkpoints) return nodeFileSystem.writeSync(fd, bytes, offset, length, position)
        states.push(['write', isFree()])
        // Half of it, then nothing more; the next one is written.
        if (states.length > 2) return nodeFileSystem.writeSync(fd, bytes, offset, length, position)
        if (states.length > 1) throw fault('ENOSPC')
        return nodeFileSystem.writeSync(fd, bytes, offset, length >> 1, position)
      },
      ftruncateSync: (fd, length) => {
        if (fd === checkpoints) states.push(['cut back', isFree()])
        nodeFileSystem.ftruncateSync(fd, length)
      },
      closeSync: (fd) => {
        if (fd === checkpoints) checkpoints = undefined
        nodeFileSystem.closeSync(fd)
      },
    })
    const errors: Error[] = []
    const appender = appenderIn(dir.path, { fileSystem, onAsyncError: (error) => errors.push(error) })
    await append(appender, 2)
    await appender.seal()
    expect(states.slice(0, 3)).to.deep.equal([
      ['write', false],
      ['write', false],
      ['cut back', false],
    ])
    expect(errors.map(({ message }) => message)).to.deep.equal(['ENOSPC: made by a test'])
    expect(statSync(path(`audit-${DAY}.checkpoint`)).size).to.equal(0)
    await appender.close()
    closeSync(writers)
    expect(checkpointsOf().map(({ size }) => size)).to.deep.equal([2])
  })

  it('seals lines longer than its chunks', async () => {
    const appender = appenderIn(dir.path)
    for (const length of [1, 131_000, 400_000, 5, 131_072]) {
      await appender.append(envelope({ agentVariables: { text: 'x'.repeat(length) } }))
    }
    await appender.close()
    expect(checkpointsOf().map(({ size }) => size)).to.deep.equal([5])
  })

  it('excludes a torn line at the end of the log', async () => {
    const appender = appenderIn(dir.path)
    await append(appender, 2)
    appendFileSync(path(`audit-${DAY}.ndjson`), '{"torn":')
    await appender.seal()
    await appender.close()
    writeFileSync(
      path(`audit-${DAY}.ndjson`),
      readFileSync(path(`audit-${DAY}.ndjson`), 'utf8').replace(/[^\n]+$/, ''),
    )
    expect(checkpointsOf().map(({ size }) => size)).to.deep.equal([2])
  })

  it('refuses to seal a changed log, reports it once, and continues to append', async () => {
    const first = appenderIn(dir.path)
    await append(first, 5)
    await first.close()
    const log = path(`audit-${DAY}.ndjson`)
    writeFileSync(log, linesOf(dir.path, `audit-${DAY}.ndjson`).toSpliced(2, 1).join('\n').concat('\n'))
    const sealed = readFileSync(path(`audit-${DAY}.checkpoint`), 'utf8')
    const errors: Error[] = []
    const second = appenderIn(dir.path, { onAsyncError: (error) => errors.push(error) })
    await append(second, 3)
    await second.seal()
    await append(second, 1)
    await second.close()
    expect(errors.map((error) => ('code' in error ? error.code : ''))).to.deep.equal(['sealed_log_changed'])
    expect(readFileSync(path(`audit-${DAY}.checkpoint`), 'utf8')).to.equal(sealed)
    expect(linesOf(dir.path, `audit-${DAY}.ndjson`)).to.have.length(8)
  })

  it('refuses to extend a checkpoint file whose end was edited', async () => {
    const first = appenderIn(dir.path)
    await append(first, 2)
    await first.close()
    const file = path(`audit-${DAY}.checkpoint`)
    const edits = [
      (text: string) => text.replace('\n2\n', '\n1\n'),
      (text: string) => text.replace('svc-', 'svx-'),
    ]
    const original = readFileSync(file, 'utf8')
    for (const edit of edits) {
      writeFileSync(file, edit(original))
      const errors: Error[] = []
      const second = appenderIn(dir.path, { onAsyncError: (error) => errors.push(error) })
      await append(second, 1)
      await second.close()
      expect(errors.map((error) => ('code' in error ? error.code : ''))).to.deep.equal(['sealed_log_changed'])
      expect(readFileSync(file, 'utf8')).to.equal(edit(original))
    }
  })

  it('retries after a disk or signer failure', async () => {
    let failing = true
    const fileSystem = diskWith({
      fsync: (fd, done) => (failing ? done(fault('EIO')) : nodeFileSystem.fsync(fd, done)),
    })
    // The folder is synced once before, by the appender.
    const before = appenderIn(dir.path, { config: { checkpoint: false } })
    await append(before, 1)
    await before.close()
    const errors: Error[] = []
    const appender = appenderIn(dir.path, { fileSystem, onAsyncError: (error) => errors.push(error) })
    await appender.seal()
    expect(errors.map(({ message }) => message)).to.deep.equal(['EIO: made by a test'])
    failing = false
    await appender.seal()
    await appender.close()
    expect(checkpointsOf().map(({ size }) => size)).to.deep.equal([1])
  })

  it('reports no error for a day that retention removes meanwhile', async () => {
    let isListed = false
    const fileSystem = diskWith({
      readdirSync: (folder) => {
        const names = nodeFileSystem.readdirSync(folder)
        if (isListed && folder === dir.path) {
          isListed = false
          return [...names, 'audit-2026-11-19.ndjson']
        }
        return names
      },
    })
    const errors: Error[] = []
    const appender = appenderIn(dir.path, { fileSystem, onAsyncError: (error) => errors.push(error) })
    await append(appender, 1)
    isListed = true
    await appender.seal()
    expect(isListed).to.equal(false)
    await appender.close()
    expect(errors).to.deep.equal([])
    expect(checkpointsOf().map(({ size }) => size)).to.deep.equal([1])
  })

  it('continues with a new key after another one', async () => {
    const other = LocalDevSigner.fromSeed(new Uint8Array(32).fill(9))
    const first = appenderIn(dir.path)
    await append(first, 2)
    await first.close()
    const second = appenderIn(dir.path, { signer: other })
    await append(second, 1)
    await second.close()
    const [, later = ''] = notePieces(readFileSync(path(`audit-${DAY}.checkpoint`))).map(({ text }) => text)
    const text = openNote(later, `svc-audit/${other.keyId}/${DAY}`, other.publicKey)
    expect(Buffer.from(parseCheckpoint(text)!.root, 'binary')).to.deep.equal(
      treeRoot(linesOf(dir.path, `audit-${DAY}.ndjson`)),
    )
  })

  it('seals for all appenders in one of them, and another takes over', async () => {
    const [first, second] = [appenderIn(dir.path), appenderIn(dir.path)]
    await append(first, 1)
    await first.seal()
    await append(second, 2)
    await second.seal()
    expect(checkpointsOf().map(({ size }) => size)).to.deep.equal([1])
    await first.seal()
    await append(second, 1)
    await first.close()
    await append(second, 1)
    await second.seal()
    await second.close()
    expect(checkpointsOf().map(({ size }) => size)).to.deep.equal([1, 3, 4, 5])
  })

  it('signs a statement before retention removes a day', async () => {
    const clock = fixedClock(`${BEFORE}T12:00:00Z`)
    const first = appenderIn(dir.path, { clock })
    await append(first, 3, BEFORE)
    await first.close()
    const [head] = checkpointsOf(BEFORE)
    const second = appenderIn(dir.path, { config: { retentionDays: 0 } })
    await append(second, 1)
    await second.close()
    for (const kind of ['ndjson', 'checkpoint', 'tree']) {
      expect(existsSync(path(`audit-${BEFORE}.${kind}`)), kind).to.equal(false)
    }
    const text = openNote(
      readFileSync(path('audit-removed.notes'), 'utf8'),
      `svc-audit/${signer.keyId}/retention`,
      signer.publicKey,
    )
    const { size, root } = head!
    expect(parseRemoval(text)?.heads).to.deep.equal([{ day: BEFORE, size, root }])
    expect(checkpointsOf()[0]?.prev).to.deep.equal({ day: BEFORE, size, root })
  })

  it('truncates a torn statement of removal, so that the next one can be read', async () => {
    const clock = fixedClock(`${BEFORE}T12:00:00Z`)
    const first = appenderIn(dir.path, { clock })
    await append(first, 3, BEFORE)
    await first.close()
    writeFileSync(path('audit-removed.notes'), `svc-audit/${signer.keyId}/retention\nremoved 2026-01-0`)
    const second = appenderIn(dir.path, { config: { retentionDays: 0 } })
    await append(second, 1)
    await second.close()
    const pieces = notePieces(readFileSync(path('audit-removed.notes')))
    expect(pieces.map(({ torn, note }) => [torn, parseRemoval(note!.text)?.heads[0]?.day])).to.deep.equal([
      [false, BEFORE],
    ])
    expect((await verifyLog(dir.path)).removedDays).to.deep.equal([BEFORE])
  })

  it('provides statements that are accepted from a copy kept elsewhere', async () => {
    const first = appenderIn(dir.path, { clock: fixedClock(`${BEFORE}T12:00:00Z`) })
    await append(first, 3, BEFORE)
    await first.close()
    const second = appenderIn(dir.path, { config: { retentionDays: 0 } })
    await append(second, 1)
    await second.close()
    renameSync(path('audit-removed.notes'), path('kept'))
    expect((await verifyLog(dir.path)).failureCounts).to.deep.equal({ missing_day: 1 })
    expect(await verifyLog(dir.path, { against: path('kept') })).to.deep.include({
      verdict: 'intact',
      failures: [],
      removedDays: [BEFORE],
    })
  })

  it('lets no process remove a day before it is completely sealed', async () => {
    const sealing = appenderIn(dir.path, { clock: fixedClock(`${BEFORE}T12:00:00Z`) })
    await append(sealing, 1, BEFORE)
    await sealing.seal()
    await append(sealing, 1, BEFORE)
    const logger = memoryLogger()
    const early = appenderIn(dir.path, { logger, config: { retentionDays: 0 } })
    await early.ready()
    expect(existsSync(path(`audit-${BEFORE}.ndjson`))).to.equal(true)
    expect(logger.entries).to.deep.include({
      level: 'warn',
      fields: { day: BEFORE },
      message: 'kept a log past its retention: it is not sealed to its end',
    })
    await sealing.seal()
    const late = appenderIn(dir.path, { config: { retentionDays: 0 } })
    await late.ready()
    expect(existsSync(path(`audit-${BEFORE}.ndjson`))).to.equal(false)
    await Promise.all([sealing, early, late].map((appender) => appender.close()))
  })
})
