import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import { forkLog, LocalDevSigner, resumeLog } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { appenderIn, codeOf, DAY, diskWith, envelope, signer } from '../writer/records.js'
import { append, badlySigned, codeOfOpening, forgedCheckpoint, messageOf, sealTwice } from './rig.js'
import { journalOf, sealedLog } from './sealed-log.js'

const LOG = `audit-${DAY}.ndjson`
const CHECKPOINTS = `audit-${DAY}.checkpoint`
const stranger = LocalDevSigner.fromSeed(new Uint8Array(32).fill(99))

describe('opening a log from a copied or restored directory', () => {
  const dir = temporaryDir()
  const path = (name: string) => join(dir.path, name)
  let copy = ''
  beforeEach(async () => {
    await sealTwice(dir.path)
    copy = mkdtempSync(join(tmpdir(), 'svc-audit-'))
    cpSync(dir.path, copy, { recursive: true })
  })
  afterEach(() => rmSync(copy, { recursive: true, force: true }))

  it('is refused until resume or fork says which log it is', async () => {
    const appender = appenderIn(copy)
    expect(await messageOf(appender.ready())).to.match(/npx svc-sdk audit resume.*npx svc-sdk audit fork/)
    expect(await codeOf(appender.append(envelope()))).to.equal('log_copied')
    await appender.close()
    expect(readFileSync(join(copy, LOG))).to.deep.equal(readFileSync(path(LOG)))
  })

  it('continues the same log after resume', async () => {
    expect(await resumeLog(copy)).to.equal(journalOf(dir.path)[0]!['log_id'])
    const appender = appenderIn(copy)
    await append(appender, 1)
    await appender.close()
    expect(sealedLog(copy).sealed.get(DAY)).to.equal(7)
    expect(journalOf(copy)[0]).to.deep.equal(journalOf(dir.path)[0])
  })

  it('begins a log with a parent after fork, and keeps the parent where it can be verified', async () => {
    const { folder, parent } = await forkLog(copy)
    const head = sealedLog(dir.path).checkpoints.at(-1)!
    expect(parent).to.include({ size: head.size, root: head.root })
    const appender = appenderIn(copy)
    await append(appender, 2)
    await appender.close()
    const { journal, sealed } = sealedLog(copy)
    expect(journal[0]!['parent']).to.deep.equal(parent)
    expect(journal[0]!['log_id']).to.not.equal(journalOf(dir.path)[0]!['log_id'])
    expect(sealed.get(DAY)).to.equal(2)
    expect(sealedLog(join(copy, folder)).size).to.equal(head.size)
    expect(readdirSync(copy)).to.not.include('.svc-fork')
  })

  for (const [title, change] of [
    ['', () => undefined],
    [', without its journal', () => rmSync(join(copy, 'audit.journal'))],
  ] as const) {
    it(`names a parent that a key of the log has signed, not one that was appended${title}`, async () => {
      change()
      appendFileSync(join(copy, CHECKPOINTS), badlySigned(await forgedCheckpoint(dir.path, 9_999, signer)))
      appendFileSync(join(copy, CHECKPOINTS), await forgedCheckpoint(dir.path, 9_998, stranger))
      expect((await forkLog(copy)).parent).to.include({ size: sealedLog(dir.path).size })
    })
  }

  it('is not forked if nothing of it is signed', async () => {
    writeFileSync(join(copy, CHECKPOINTS), await forgedCheckpoint(dir.path, 9, stranger))
    expect(await messageOf(forkLog(copy))).to.include('holds no checkpoint that a key of the log has signed')
  })

  it('can be forked again after a fork that died in the middle', async () => {
    let renames = 0
    const dying = diskWith({
      renameSync: (from, to) => {
        if (++renames === 5) throw new Error('dies here')
        nodeFileSystem.renameSync(from, to)
      },
    })
    expect(await messageOf(forkLog(copy, dying))).to.include('dies here')
    expect(await codeOfOpening(copy)).to.equal('log_copied')
    const { folder } = await forkLog(copy)
    expect(await codeOfOpening(copy)).to.equal('resolved')
    expect(sealedLog(join(copy, folder)).size).to.equal(9)
  })
})

describe('a writer that loses its directory', () => {
  const dir = temporaryDir()
  const path = (name: string) => join(dir.path, name)

  it('is refused after the lock file was deleted, and a running writer stops', async () => {
    const running = appenderIn(dir.path)
    await append(running, 2)
    await running.seal()
    rmSync(path('.svc-lock'))
    expect(await codeOf(running.append(envelope()))).to.equal('lock_lost')
    expect(running.status()).to.have.nested.property('error.code', 'lock_lost')
    expect(await codeOfOpening(dir.path)).to.equal('log_copied')
    expect(await codeOf(running.append(envelope()))).to.equal('lock_lost')
    expect(await messageOf(resumeLog(dir.path))).to.include('a writer is at work')
    await running.close()
    await resumeLog(dir.path)
    expect(await codeOfOpening(dir.path)).to.equal('resolved')
    expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(2)
  })

  it('stops a writer whose directory was removed and made anew', async () => {
    const running = appenderIn(dir.path)
    await append(running, 2)
    rmSync(dir.path, { recursive: true })
    expect(await codeOf(running.append(envelope()))).to.equal('lock_lost')
    nodeFileSystem.mkdirSync(dir.path, { recursive: true, mode: 0o700 })
    expect(await codeOf(running.append(envelope()))).to.equal('lock_lost')
    await running.close()
    expect(existsSync(path(LOG))).to.equal(false)
  })
})
