import {
  appendFileSync,
  closeSync,
  constants,
  existsSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import { parseCheckpoint, parseRemoval } from '@svc/plugin-audit/internal/log/seal/checkpoint'
import { notePieces } from '@svc/plugin-audit/internal/log/seal/note-file'
import { LocalDevSigner, verifyLog } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { temporaryDir } from '../../temporary.js'
import {
  appenderIn,
  DAY,
  diskWith,
  fault,
  fixedClock,
  linesOf,
  memoryLogger,
  signer,
} from '../writer/records.js'
import { openNote, treeRoot } from './independent-verifier.js'
import { append, checkpointsIn } from './rig.js'

const locks = createRequire(createRequire(import.meta.url).resolve('@svc/plugin-audit'))(
  'fs-native-extensions',
)
const BEFORE = '2026-11-20'

describe('the sealer with faults, several processes and retention', () => {
  const dir = temporaryDir()
  const path = (name: string) => join(dir.path, name)

  const checkpointsOf = (day = DAY, key = signer) => checkpointsIn(dir.path, day, key)

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
    const before = appenderIn(dir.path, { config: { checkpoints: false } })
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
    const second = appenderIn(dir.path, {
      clock: fixedClock('2026-11-22T12:00:00Z'),
      config: { retentionDays: 1 },
    })
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
    const second = appenderIn(dir.path, {
      clock: fixedClock('2026-11-22T12:00:00Z'),
      config: { retentionDays: 1 },
    })
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
    const second = appenderIn(dir.path, {
      clock: fixedClock('2026-11-22T12:00:00Z'),
      config: { retentionDays: 1 },
    })
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
    const early = appenderIn(dir.path, {
      logger,
      clock: fixedClock('2026-11-22T12:00:00Z'),
      config: { retentionDays: 1 },
    })
    await early.ready()
    expect(existsSync(path(`audit-${BEFORE}.ndjson`))).to.equal(true)
    expect(logger.entries).to.deep.include({
      level: 'warn',
      fields: { day: BEFORE },
      message: 'kept a log past its retention: it is not sealed to its end',
    })
    await sealing.seal()
    const late = appenderIn(dir.path, {
      clock: fixedClock('2026-11-22T12:00:00Z'),
      config: { retentionDays: 1 },
    })
    await late.ready()
    expect(existsSync(path(`audit-${BEFORE}.ndjson`))).to.equal(false)
    await Promise.all([sealing, early, late].map((appender) => appender.close()))
  })
})
