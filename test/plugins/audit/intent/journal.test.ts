import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Intent } from '@svc/plugin-audit/internal/intent/entry'
import { IntentJournal } from '@svc/plugin-audit/internal/intent/journal'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import type { FileSystem } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import sinon from 'sinon'
import { temporaryDir } from '../../../support/temporary-dir.js'
import { codeOf, diskWith, envelope, ioError as error, signer } from '../log/writer/records.js'

function journals(dir: string): string[] {
  const folder = join(dir, 'intents')
  return existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.journal')) : []
}

/** Intents and outcomes in the journals under `dir`, line by line. */
function linesIn(dir: string): Record<string, unknown>[] {
  return journals(dir).flatMap((name) =>
    readFileSync(join(dir, 'intents', name), 'utf8')
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter((line) => !('intents' in line || 'batch' in line)),
  )
}

const log = { signer, logId: () => null }

const serialsIn = (dir: string): unknown[] =>
  linesIn(dir).flatMap(({ intent }) => (intent === undefined ? [] : [intent]))

describe('the intent journal', () => {
  const dir = temporaryDir()

  it('resolves when the intent is on disk', async () => {
    const synced: string[] = []
    const port = diskWith({
      fdatasync: (fd, done) => {
        synced.push(...linesIn(dir.path).map(({ intent }) => String(intent)))
        nodeFileSystem.fdatasync(fd, done)
      },
    })
    const journal = new IntentJournal(dir.path, port, log)
    const { serial } = await journal.begin(envelope())
    expect(synced).to.include(String(serial))
    await journal.close()
  })

  it('creates no file before the first intent', async () => {
    const journal = new IntentJournal(dir.path, nodeFileSystem, log)
    await journal.close()
    expect(readdirSync(dir.path)).to.deep.equal([])
  })

  it('shares one sync among the calls of one event loop turn', async () => {
    let syncs = 0
    const port = diskWith({
      fdatasync: (fd, done) => {
        syncs++
        nodeFileSystem.fdatasync(fd, done)
      },
    })
    const journal = new IntentJournal(dir.path, port, log)
    await journal.begin(envelope())
    syncs = 0
    await Promise.all(Array.from({ length: 50 }, () => journal.begin(envelope())))
    expect(syncs).to.equal(1)
    await journal.close()
  })

  it('writes outcomes with the next intent, without a sync of their own', async () => {
    const journal = new IntentJournal(dir.path, nodeFileSystem, log)
    const first = await journal.begin(envelope())
    journal.end(first)
    expect(linesIn(dir.path)).to.have.length(1)
    await journal.begin(envelope())
    expect(linesIn(dir.path)[1]).to.deep.equal({ outcome: first.serial })
    await journal.close()
  })

  it('is truncated when no intent is open', async () => {
    const clock = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      const journal = new IntentJournal(dir.path, nodeFileSystem, log)
      journal.end(await journal.begin(envelope()))
      await clock.tickAsync(1_000)
      expect([journals(dir.path).length, linesIn(dir.path)]).to.deep.equal([1, []])
      await journal.close()
    } finally {
      clock.restore()
    }
  })

  it('is removed on close unless an intent is open', async () => {
    const done = new IntentJournal(dir.path, nodeFileSystem, log)
    done.end(await done.begin(envelope()))
    await done.close()
    expect(journals(dir.path)).to.deep.equal([])
    const left = new IntentJournal(dir.path, nodeFileSystem, log)
    await left.begin(envelope())
    await left.close()
    await left.close()
    expect(journals(dir.path)).to.have.length(1)
    expect(await codeOf(left.begin(envelope()))).to.equal('closed')
  })

  it('has bounded size while one call is always open, and keeps its intent', async () => {
    const segmentBytes = 20_000
    const journal = new IntentJournal(dir.path, nodeFileSystem, log, segmentBytes)
    const standing = await journal.begin(envelope())
    let previous: Intent | undefined
    let largest = 0
    for (let i = 0; i < 300; i++) {
      const intent = await journal.begin(envelope())
      if (previous !== undefined) journal.end(previous)
      previous = intent
      largest = Math.max(largest, JSON.stringify(linesIn(dir.path)).length)
      expect(serialsIn(dir.path)).to.include(standing.serial).and.to.include(intent.serial)
    }
    expect(largest).to.be.lessThan(2 * segmentBytes)
    expect(journals(dir.path)).to.have.length(1)
    await journal.close()
  })

  for (const [what, changes] of [
    [
      'a full disk',
      {
        writeSync: () => {
          throw error('ENOSPC')
        },
      },
    ],
    ['a failing sync', { fdatasync: (_fd, done) => done(error('EIO')) }],
    [
      'a folder that cannot be made',
      {
        mkdirSync: () => {
          throw error('EROFS')
        },
      },
    ],
  ] as [string, Partial<FileSystem>][])
    it(`rejects on ${what}, reports it, and continues when the disk works again`, async () => {
      let broken = true
      const port = new Proxy(nodeFileSystem, {
        get: (target, name: keyof FileSystem) => (broken ? changes[name] : undefined) ?? target[name],
      })
      const journal = new IntentJournal(dir.path, port, log)
      expect(await codeOf(journal.begin(envelope()))).to.equal('intent_failed')
      expect(journal.failure).to.have.property('code', 'intent_failed')
      await journal.probe()
      expect(journal.failure).to.have.property('code', 'intent_failed')
      broken = false
      await journal.probe()
      expect(journal.failure).to.equal(undefined)
      const { serial } = await journal.begin(envelope())
      expect(serialsIn(dir.path)).to.deep.equal([serial])
      expect(journals(dir.path)).to.have.length(1)
      await journal.close()
    })

  it('copies open intents to a new file after a failed sync, without the rejected ones', async () => {
    let failing = false
    const port = diskWith({
      fdatasync: (fd, done) => {
        if (!failing) return nodeFileSystem.fdatasync(fd, done)
        failing = false
        done(error('EIO'))
      },
    })
    const journal = new IntentJournal(dir.path, port, log)
    const open = await journal.begin(envelope())
    const [before] = journals(dir.path)
    failing = true
    expect(await codeOf(journal.begin(envelope()))).to.equal('intent_failed')
    const after = await journal.begin(envelope())
    expect(serialsIn(dir.path)).to.deep.equal([open.serial, after.serial])
    expect(journals(dir.path)).to.have.length(1).and.not.to.include(before)
    await journal.close()
  })

  it('refuses a file system that is not local', async () => {
    mkdirSync(join(dir.path, 'nfs'))
    const journal = new IntentJournal(
      join(dir.path, 'nfs'),
      diskWith({ statfsSync: () => ({ type: 0x6969 }) }),
      log,
    )
    expect(await codeOf(journal.begin(envelope()))).to.equal('not_local')
    await journal.close()
  })
})
