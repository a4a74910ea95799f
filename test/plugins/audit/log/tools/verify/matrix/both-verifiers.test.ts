import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { publicKeyLine } from '@svc/plugin-audit/internal/log/format/verifier'
import { LocalDevSigner, resumeLog, verifierFromPublicKey } from '@svc/plugin-audit/log'
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { Chance } from '../../../../../../support/chance.js'
import { appenderIn, envelope, fixedClock, signer } from '../../../writer/records.js'
import { verifyInPython } from './python.js'

const next = LocalDevSigner.fromSeed(new Uint8Array(32).fill(21))
const keys = [verifierFromPublicKey(signer.publicKey)]
const FLIPS = 80

describe('both verifiers on a log of the writer', function () {
  this.timeout(120_000)
  let root = ''

  before(async () => {
    root = mkdtempSync(join(tmpdir(), 'svc-both-'))
    const dir = join(root, 'log')
    const config = { retentionDays: 1 }
    for (const day of ['2026-11-18', '2026-11-19', '2026-11-20', '2026-11-21']) {
      const key = { signer: day < '2026-11-20' ? signer : next }
      const retiring = day === '2026-11-20' ? { retiringSigner: signer } : {}
      const clock = fixedClock(`${day}T12:00:00Z`)
      await using appender = appenderIn(dir, { config, clock, ...key, ...retiring })
      for (let i = 0; i < 9; i++) {
        await appender.append(
          envelope({ ts: `${day}T1${i}:00:00Z`, agentVariables: { text: 'ü "quoted" \\ 12.50' } }),
        )
        if (i % 4 === 3) await appender.seal()
      }
    }
    writeFileSync(join(root, 'keys'), `${publicKeyLine(signer.publicKey)}\n`)
  })

  after(() => rmSync(root, { recursive: true, force: true }))

  const edit = (path: string, change: (text: string) => string) =>
    writeFileSync(path, change(readFileSync(path, 'utf8')))
  const jobOf = (folder: string) => ({
    folder,
    keys: join(root, 'keys'),
    against: undefined,
    origin: undefined,
    allow_unsealed: false,
  })
  const listed = (failures: readonly { file: string; line: number; kind: string }[]) =>
    failures.map(({ file, line, kind }) => `${file}:${line}: ${kind}`).sort()

  it('find it intact, over days that retention removed and a key that was replaced', async () => {
    const dir = join(root, 'log')
    const report = await verifyLog(dir, { keys })
    expect(report.failures).to.deep.equal([])
    expect(report.removedDays).to.deep.equal(['2026-11-18', '2026-11-19'])
    expect(verifyInPython([jobOf(dir)])[0]).to.include({ verdict: 'intact' })
  })

  it('find the fault line that the writer appends if sealed records were cut off, and what was sealed after it', async () => {
    const dir = join(root, 'cut')
    cpSync(join(root, 'log'), dir, { recursive: true })
    const file = join(dir, 'audit-2026-11-21.ndjson')
    const lines = readFileSync(file, 'utf8').split('\n')
    writeFileSync(file, `${lines.slice(0, 5).join('\n')}\n`)
    // It is a copy; the original is not written again.
    await resumeLog(dir)
    const clock = fixedClock('2026-11-21T13:00:00Z')
    const appender = appenderIn(dir, {
      config: { retentionDays: 1 },
      clock,
      signer: next,
      onAsyncError: () => undefined,
    })
    for (let i = 0; i < 3; i++) await appender.append(envelope({ ts: '2026-11-21T13:00:00Z' }))
    await appender.close()
    const report = await verifyLog(dir, { keys })
    expect(Object.keys(report.failureCounts).sort()).to.deep.equal(['deleted', 'fault'])
    expect(report.failures.find(({ kind }) => kind === 'deleted')?.message).to.match(/^4 records are missing/)
    const [python] = verifyInPython([jobOf(dir)])
    expect(listed(python!.failures)).to.deep.equal(listed(report.failures))
  })

  for (const [title, change, found] of [
    ['as they are', () => undefined, []],
    ['with another byte', (path: string) => edit(path, (text) => text.replace('"ok"', '"ko"')), [1]],
    ['without the last line', (path: string) => edit(path, (text) => `${text.split('\n')[0]}\n`), [2]],
    ['without its file', (path: string) => rmSync(path), [1]],
    ['with a line more', (path: string) => edit(path, (text) => `${text}{}\n`), [3]],
  ] as [string, (path: string) => void, number[]][]) {
    it(`find the files of agents ${title}`, async () => {
      const dir = mkdtempSync(join(root, 'agents-'))
      const appender = appenderIn(dir)
      for (const agentRef of ['run 7', 'run 7', '.', 'x'.repeat(300), 'ü']) {
        await appender.append(envelope({ nodeId: 'node/1', agentRef }))
      }
      await appender.close()
      const file = 'agents/node%2F1/2026-11-21/run%207.ndjson'
      change(join(dir, file))
      const report = await verifyLog(dir, { keys, agents: true })
      const expected = found.map((line) => `${file}:${line}: agent_file`)
      expect(listed(report.failures)).to.deep.equal(expected)
      const [python, without] = verifyInPython([{ ...jobOf(dir), agents: true }, jobOf(dir)])
      expect(listed(python!.failures)).to.deep.equal(expected)
      expect(without!.verdict).to.equal('intact')
    })
  }

  it('find the same wherever a byte is changed', async () => {
    const seed = Math.floor(Math.random() * 2 ** 31)
    const random = new Chance(seed)
    const names = readdirSync(join(root, 'log')).filter((name) => /^audit/.test(name))
    const changes: { dir: string; name: string; at: number }[] = []
    for (let i = 0; i < FLIPS; i++) {
      const dir = join(root, `flip-${i}`)
      cpSync(join(root, 'log'), dir, { recursive: true })
      const name = names[i % names.length]!
      const bytes = readFileSync(join(dir, name))
      const at = random.int(0, bytes.length - 1)
      bytes[at] = bytes[at]! ^ random.int(1, 255)
      writeFileSync(join(dir, name), bytes)
      changes.push({ dir, name, at })
    }
    const python = verifyInPython(changes.map(({ dir }) => jobOf(dir)))
    for (const [i, { dir, name, at }] of changes.entries()) {
      const report = await verifyLog(dir, { keys })
      const what = `byte ${at} of ${name}, seed ${seed}`
      expect(listed(python[i]!.failures), what).to.deep.equal(listed(report.failures))
      expect(python[i]!.verdict, what).to.equal(report.verdict)
    }
  })
})
