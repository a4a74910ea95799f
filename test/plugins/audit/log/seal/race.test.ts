import { appendFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DirectoryLock } from '@svc/plugin-audit/internal/log/files/directory-lock'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import { LogTree } from '@svc/plugin-audit/internal/log/seal/log-tree'
import { Sealer } from '@svc/plugin-audit/internal/log/seal/sealer'
import { expect } from 'chai'
import { RecordingMeter } from '../../../../support/stage-rig.js'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { appenderIn, DAY, diskWith, fixedClock, memoryLogger, signer } from '../writer/records.js'
import { append, opened as openedIn, runEvenly } from './rig.js'
import { journalOf, sealedLog } from './sealed-log.js'

const OLD = '2026-11-18'
const HOUR = 3_600_000

describe('two processes that append to one journal', () => {
  const dir = temporaryDir()
  const path = (name: string) => join(dir.path, name)
  const kinds = () => journalOf(dir.path).map(({ kind }) => kind)
  const isThere = () => existsSync(path(`audit-${OLD}.ndjson`))
  const locks: DirectoryLock[] = []
  afterEach(() => {
    for (const lock of locks.splice(0)) lock.close()
  })

  /** The log as another process has loaded it. */
  function otherParts(clock = fixedClock()) {
    const lock = new DirectoryLock(dir.path, nodeFileSystem, clock)
    locks.push(lock)
    return { dir: dir.path, port: nodeFileSystem, lock, clock, logger: memoryLogger(), signers: [signer] }
  }

  const treeFiles = () =>
    readdirSync(path('tree'), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => [name, readFileSync(join(parentPath, name), 'hex')])

  /** A sealed log of an old day, and a clock that has run evenly until `DAY`. */
  async function oldLog(records: number, midway?: () => Promise<void>) {
    const clock = fixedClock(`${OLD}T12:00:00Z`)
    const appender = appenderIn(dir.path, { clock, config: { retentionDays: 1 } })
    await append(appender, records, OLD)
    await appender.seal()
    await midway?.()
    await append(appender, records, OLD)
    await appender.close()
    await runEvenly(dir.path, clock)
    return clock
  }

  const opened = (options: Parameters<typeof appenderIn>[1] = {}) => openedIn(dir.path, options)

  it('leave the files of the tree to the one whose line is in the journal', async () => {
    const appender = appenderIn(dir.path)
    await append(appender, 3)
    await appender.close()
    const first = await LogTree.load(otherParts())
    const parts = otherParts(fixedClock(`${DAY}T13:00:00Z`))
    const second = await LogTree.load(parts)
    // More leaves than are written at once.
    for (let leaf = 0; leaf < 3_000; leaf++) second.writer.add('\x01'.repeat(32))
    const end = second.state.ends.get(DAY) ?? 0
    const ranges = [[DAY, end, end + 3_000, 3_000]] as const
    await first.append({ kind: 'seal', ranges: [] })
    await first.checkpoint()
    const files = treeFiles()
    const lost = await second.append({ kind: 'seal', ranges }).then(
      () => 'appended',
      (error: Error) => error.message,
    )
    expect(lost).to.match(/another process has appended/)
    expect(treeFiles()).to.deep.equal(files)
    const third = await LogTree.load(parts)
    await third.append({ kind: 'seal', ranges: [] })
    await third.checkpoint()
    expect(parts.logger.entries).to.deep.equal([])
    expect(sealedLog(dir.path).size).to.equal(third.size)
  })

  for (const [title, isExtended, trees] of [
    ['follow the other one if they have added nothing to their tree', false, 1],
    ['load the tree again if they have', true, 2],
  ] as const) {
    it(title, async () => {
      const appender = appenderIn(dir.path)
      await append(appender, 3)
      await appender.close()
      const parts = otherParts()
      const meter = new RecordingMeter()
      const sealer = new Sealer({
        ...parts,
        meter,
        intervalMs: HOUR,
        closeMs: HOUR,
        retentionDays: 30,
        onError: ({ message }) => expect.fail(message),
      })
      const other = await LogTree.load(otherParts())
      const seen: LogTree[] = []
      await sealer.withTree(async (tree) => {
        seen.push(tree)
        await tree.follow()
        if (seen.length === 1) {
          if (isExtended) tree.writer.add('\x01'.repeat(32))
          await other.append({ kind: 'seal', ranges: [] })
        }
        await parts.lock.run(() => tree.requireCurrent())
        expect([tree.size, tree.writer.range.root()]).to.deep.equal([other.size, other.writer.range.root()])
      })
      expect([seen.length, new Set(seen).size]).to.deep.equal([2, trees])
    })
  }

  it('follow a day whose first lines were read from its log and whose last ones are in its cover', async () => {
    let other: LogTree | undefined
    const clock = await oldLog(3, async () => {
      other = await LogTree.load(otherParts(fixedClock(`${OLD}T12:00:00Z`)))
    })
    await opened({ clock })
    expect(isThere()).to.equal(false)
    await other?.follow()
    expect(other?.size).to.equal(sealedLog(dir.path).size)
  })

  it('append no fault line if a record is appended to a day that is being removed', async () => {
    const clock = await oldLog(3)
    const log = path(`audit-${OLD}.ndjson`)
    const [line] = readFileSync(log, 'utf8').split('\n')
    let isDue = true
    const fileSystem = diskWith({
      read: (...args) => {
        if (isDue) appendFileSync(log, `${line}\n`)
        isDue = false
        nodeFileSystem.read(...args)
      },
    })
    await opened({ clock, fileSystem })
    expect(isDue).to.equal(false)
    expect(isThere()).to.equal(true)
    expect(kinds()).to.not.include('fault')
    await opened({ clock })
    expect(isThere()).to.equal(false)
    expect(kinds()).to.not.include('fault')
  })

  it('append no fault line if it is the tree that was changed, and rebuild it', async () => {
    const clock = await oldLog(300)
    const leaves = readFileSync(path('tree/0/0'))
    const damaged = Buffer.from(leaves)
    damaged[2 * 32]! ^= 1
    writeFileSync(path('tree/0/0'), damaged)
    expect(await opened({ clock })).to.deep.equal([
      'the files of the tree are missing or damaged, and are rebuilt from the log',
    ])
    expect(readFileSync(path('tree/0/0')).subarray(0, leaves.length)).to.deep.equal(leaves)
    expect(await opened({ clock })).to.deep.equal([])
    expect(isThere()).to.equal(false)
    expect(kinds()).to.not.include('fault')
    sealedLog(dir.path)
  })

  it('open the log and keep its old days if the other one is always faster', async () => {
    const clock = await oldLog(3)
    const parts = otherParts(clock)
    let losses = 0
    const losing = {
      keyId: signer.keyId,
      publicKey: signer.publicKey,
      verify: () => true,
      sign: () => expect.fail('it signs asynchronously'),
      signAsync: async (data: Uint8Array) => {
        const message = Buffer.from(data)
        if (message.includes('"kind":"remove"')) {
          losses++
          const other = await LogTree.load(parts)
          await other.append({ kind: 'seal', ranges: [] })
        }
        return signer.sign(message)
      },
    }
    expect(await opened({ clock, signer: losing })).to.deep.equal([
      'files past their retention are kept until the next check',
    ])
    expect(losses).to.be.above(3)
    expect(isThere()).to.equal(true)
    await opened({ clock })
    expect(isThere()).to.equal(false)
    expect(sealedLog(dir.path).journal.map(({ kind }) => kind)).to.not.include('fault')
  })
})
