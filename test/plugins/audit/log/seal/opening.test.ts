import {
  appendFileSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import { AuditError, LocalDevSigner, rotateKey } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import {
  appenderIn,
  codeOf,
  DAY,
  diskWith,
  envelope,
  fixedClock,
  memoryLogger,
  signer,
} from '../writer/records.js'
import { append, badlySigned, codeOfOpening, forgedCheckpoint, messageOf, sealTwice } from './rig.js'
import { journalOf, sealedLog } from './sealed-log.js'

const LOG = `audit-${DAY}.ndjson`
const CHECKPOINTS = `audit-${DAY}.checkpoint`

describe('opening a log', () => {
  const dir = temporaryDir()
  const path = (name: string) => join(dir.path, name)
  const cut = (name: string, bytes: number) => truncateSync(path(name), statSync(path(name)).size - bytes)

  const sealed = (count?: number, clock?: ReturnType<typeof fixedClock>) => sealTwice(dir.path, count, clock)
  const reopen = () => codeOfOpening(dir.path)

  it('cuts off a torn journal line, and seals its records again', async () => {
    await sealed()
    const whole = readFileSync(path('audit.journal'))
    cut('audit.journal', 5)
    cut(CHECKPOINTS, readFileSync(path(CHECKPOINTS), 'utf8').length / 3)
    const checkpoints = readFileSync(path(CHECKPOINTS), 'utf8')
    const last = checkpoints.lastIndexOf('log.svc-audit/', checkpoints.lastIndexOf('\u2014'))
    truncateSync(path(CHECKPOINTS), Buffer.byteLength(checkpoints.slice(0, last)))
    const logger = memoryLogger()
    const appender = appenderIn(dir.path, { logger })
    await appender.ready()
    await appender.close()
    expect(logger.entries.map(({ message }) => message)).to.include(
      'cut off a torn journal line, left by a writer that died',
    )
    expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(6)
    expect(readFileSync(path('audit.journal')).length).to.equal(whole.length)
  })

  it('signs the checkpoint of a journal line that a writer persisted before it died', async () => {
    await sealed()
    const before = sealedLog(dir.path)
    const text = readFileSync(path(CHECKPOINTS), 'utf8')
    const origin = before.journal[0]!['origin']
    writeFileSync(path(CHECKPOINTS), text.slice(0, text.lastIndexOf(`${origin}\n9\n`)))
    expect(await reopen()).to.equal('resolved')
    const after = sealedLog(dir.path)
    expect(after.checkpoints).to.deep.equal(before.checkpoints)
    expect(after.journal).to.deep.equal(before.journal)
  })

  it('rebuilds tree files that are missing or damaged', async () => {
    await sealed(300)
    const tree = readFileSync(path('tree/0/0'))
    rmSync(path('tree'), { recursive: true })
    expect(await reopen()).to.equal('resolved')
    expect(readFileSync(path('tree/0/0'))).to.deep.equal(tree)
    // The newest checkpoint's path in the tree leads through its last hashes.
    const damaged = Buffer.from(tree)
    damaged.fill(1, damaged.length - 32)
    writeFileSync(path('tree/0/0'), damaged)
    expect(await reopen()).to.equal('resolved')
    expect(readFileSync(path('tree/0/0'))).to.deep.equal(tree)
  })

  for (const [title, change] of [
    ['has lost its journal', () => rmSync(path('audit.journal'))],
    ['has lost a journal line', () => cut('audit.journal', 900)],
    ['has lost all checkpoints', () => rmSync(path(CHECKPOINTS))],
    ['has a journal that begins in the middle', () => dropLine('audit.journal', 0)],
  ] as const) {
    it(`is refused for one that ${title}, with both ways to continue`, async () => {
      await sealed()
      change()
      await using appender = appenderIn(dir.path)
      expect(await messageOf(appender.ready())).to.match(/Put the missing .* back.*npx svc-sdk audit fork/)
      expect(await codeOf(appender.append(envelope()))).to.equal('log_unlinked')
      expect(appender.status()).to.have.nested.property('error.code', 'log_unlinked')
    })
  }

  const stranger = LocalDevSigner.fromSeed(new Uint8Array(32).fill(99))
  const forged = (size: number, by: LocalDevSigner) => forgedCheckpoint(dir.path, size, by)

  for (const [title, plant] of [
    ['an edited one', () => edit(CHECKPOINTS, (text) => text.replace('\n9\n', '\n5\n'))],
    ['one of another key', async () => appendFileSync(path(CHECKPOINTS), await forged(9_999, stranger))],
    ['one of the same size', async () => appendFileSync(path(CHECKPOINTS), await forged(9, stranger))],
    [
      'one that names the key of the log',
      async () => appendFileSync(path(CHECKPOINTS), badlySigned(await forged(9_999, signer))),
    ],
    [
      'a thousand of another key',
      async () => appendFileSync(path(CHECKPOINTS), (await forged(9_999, stranger)).repeat(1_000)),
    ],
    [
      'many files of later days',
      async () => {
        const note = await forged(9_999, stranger)
        for (let day = 10; day < 22; day++) writeFileSync(path(`audit-2027-01-${day}.checkpoint`), note)
      },
    ],
  ] as const) {
    it(`continues from the newest checkpoint that the log has signed, past ${title}`, async () => {
      await sealed()
      await plant()
      const appender = appenderIn(dir.path)
      await append(appender, 1)
      await appender.close()
      const { leaf, kind } = journalOf(dir.path).at(-1) as { leaf: number; kind: string }
      expect({ leaf, kind }).to.deep.equal({ leaf: 10, kind: 'seal' })
    })
  }

  it('continues past a newest checkpoint by a key that was retired before it, even with a new key', async () => {
    await sealed()
    const next = LocalDevSigner.fromSeed(new Uint8Array(32).fill(8))
    await rotateKey(dir.path, { from: signer, to: next, retire: true })
    const last = readdirSync(dir.path).filter((name) => name.endsWith('.checkpoint'))
    appendFileSync(path(last.sort().at(-1) ?? ''), await forged(9_999, signer))
    const appender = appenderIn(dir.path, { signer: next })
    await append(appender, 1)
    await appender.close()
    expect(journalOf(dir.path).at(-1)).to.include({ kind: 'seal' })
  })

  it('is refused if sealed records changed before their checkpoint was signed', async () => {
    await sealed()
    const text = readFileSync(path(CHECKPOINTS), 'utf8')
    const { origin } = sealedLog(dir.path).journal[0] as { origin: string }
    writeFileSync(path(CHECKPOINTS), text.slice(0, text.lastIndexOf(`${origin}\n9\n`)))
    edit(LOG, (log) => `${log.slice(0, -300)}x${log.slice(-299)}`)
    expect(await reopen()).to.equal('log_unlinked')
  })

  it('needs no more time and memory for an old log than for a young one', async () => {
    await sealed()
    const clock = fixedClock()
    // Lines before the last hour do not count.
    const sealedLater = async () => {
      clock.ms += 3_600_000
      await sealed(1_000, clock)
    }
    const costOfOpening = async () => {
      let bytes = 0
      const fileSystem = diskWith({
        readSync: (fd, buffer, offset, length, position) => {
          const got = nodeFileSystem.readSync(fd, buffer, offset, length, position)
          bytes += got
          return got
        },
      })
      const appender = appenderIn(dir.path, { fileSystem, clock })
      await appender.ready()
      await appender.close()
      return bytes
    }
    await costOfOpening()
    for (let i = 0; i < 3; i++) await sealedLater()
    const young = await costOfOpening()
    for (let i = 0; i < 9; i++) await sealedLater()
    expect(await costOfOpening()).to.be.below(young + 100_000)
  })

  for (const [title, change] of [
    ['renamed', () => renameSync(path(LOG), path(`${LOG}.1`))],
    ['removed', () => rmSync(path(LOG))],
    ['replaced', () => replace(path(LOG))],
    ['cut', () => cut(LOG, 100)],
  ] as const) {
    it(`finds at the next batch that the live file was ${title}, states it and continues`, async () => {
      const errors: Error[] = []
      const appender = appenderIn(dir.path, { onAsyncError: (error) => errors.push(error) })
      await append(appender, 3)
      await appender.seal()
      change()
      expect(await codeOf(appender.append(envelope()))).to.equal('log_changed')
      await append(appender, 5)
      expect(appender.status().writable).to.equal(true)
      await appender.close()
      expect(errors.map(({ message }) => message)).to.have.length(1)
      expect(errors[0]?.message).to.include('was changed after it was sealed')
      const journal = journalOf(dir.path)
      expect(journal.filter(({ kind }) => kind === 'fault')).to.have.length(1)
      expect(journal.at(-1)!['ranges'].at(-1)[2]).to.equal(statSync(path(LOG)).size)
      // The refused record is named by the next one, so it is not missed.
      const lost = readFileSync(path(LOG), 'utf8').match(/"lost":\[\[3,3\]\]/g)
      expect(lost).to.have.length(1)
    })
  }

  function replace(file: string): void {
    rmSync(file)
    writeFileSync(file, '{}\n')
  }

  it('refuses a log of the old format with one sentence', async () => {
    writeFileSync(path(LOG), '{}\n')
    writeFileSync(path(CHECKPOINTS), 'svc-audit/ed25519:00/2026-11-21\n')
    const appender = appenderIn(dir.path)
    const error = await appender.ready().catch((error: AuditError) => error)
    await appender.close()
    expect(error).to.be.instanceOf(AuditError).with.property('code', 'old_format')
    expect((error as AuditError).message.match(/\. /g)).to.equal(null)
    expect(readFileSync(path(LOG), 'utf8')).to.equal('{}\n')
  })

  it('is refused with checkpoints for a log written without them, and the reverse', async () => {
    const off = appenderIn(dir.path, { config: { checkpoints: false } })
    await append(off, 1)
    await off.close()
    expect(await reopen()).to.equal('old_format')
    for (const name of readdirSync(dir.path)) rmSync(path(name), { recursive: true })
    await sealed()
    await using again = appenderIn(dir.path, { config: { checkpoints: false } })
    expect(await codeOf(again.append(envelope()))).to.equal('bad_config')
  })

  it('begins a new log after a writer died within the genesis', async () => {
    const first = appenderIn(dir.path)
    await first.ready()
    await first.close()
    rmSync(path(CHECKPOINTS))
    cut('audit.journal', 40)
    expect(await reopen()).to.equal('resolved')
    expect(sealedLog(dir.path).checkpoints.map(({ size }) => size)).to.deep.equal([1])
  })

  it('follows a journal that was replaced while it was written, and reports that', async () => {
    const errors: Error[] = []
    const appender = appenderIn(dir.path, { onAsyncError: (error) => errors.push(error) })
    await append(appender, 1)
    await appender.seal()
    renameSync(path('audit.journal'), path('audit.journal.1'))
    appendFileSync(path('audit.journal'), readFileSync(path('audit.journal.1')))
    await append(appender, 1)
    await appender.seal()
    await appender.close()
    expect(errors.map(({ message }) => message)).to.have.length(1)
    expect(errors[0]?.message).to.include('audit.journal was replaced')
    expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(2)
  })

  function edit(name: string, change: (text: string) => string): void {
    writeFileSync(path(name), change(readFileSync(path(name), 'utf8')))
  }

  function dropLine(name: string, index: number): void {
    edit(name, (text) => text.split('\n').toSpliced(index, 1).join('\n'))
  }
})
