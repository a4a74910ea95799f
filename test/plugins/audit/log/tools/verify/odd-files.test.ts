import { execFileSync, spawnSync } from 'node:child_process'
import {
  appendFileSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
} from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { LogBuilder } from '../../../../../support/audit-log.js'
import { svc } from '../../../../../support/svc.js'
import { temporaryDir } from '../../../../../support/temporary-dir.js'
import { verifyInPython } from './matrix/python.js'

const REMOVED = '2026-11-15'
const DAY = '2026-11-21'
const HOLE_BYTES = 1_572_864_000
const COPIES = 100_000
const LIMIT_MS = 30_000

const files = [
  `audit-${REMOVED}.cover`,
  `audit-${DAY}.checkpoint`,
  'audit.journal',
  `audit-${DAY}.ndjson`,
  'tree/0/0',
  'public-keys',
]
const replacements: Record<string, (path: string) => void> = {
  'a FIFO': (path) => {
    rmSync(path)
    execFileSync('mkfifo', [path])
  },
  'a symbolic link to the file': (path) => {
    renameSync(path, `${path}-moved`)
    symlinkSync(`${path}-moved`, path)
  },
  'a directory': (path) => {
    rmSync(path)
    mkdirSync(path)
  },
  'a hole of 1.5 GB at its end': (path) => truncateSync(path, HOLE_BYTES),
}

/** The verdicts of a verifier on the logs, from a process that can be ended if it hangs. */
function verifyApart(dirs: readonly string[]): { verdict: string; reason: string }[] {
  const script = `import { verifyLog } from '@svc/plugin-audit/tools'
const reports = []
for (const dir of ${JSON.stringify(dirs)}) reports.push(await verifyLog(dir))
console.log(JSON.stringify(reports))`
  const { stdout, error, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', script], {
    cwd: new URL('.', import.meta.url),
    encoding: 'utf8',
    timeout: LIMIT_MS,
  })
  if (error !== undefined || stdout === '')
    throw new Error(`verification failed: ${stderr}`, { cause: error })
  return JSON.parse(stdout)
}

const jobOf = (folder: string, keys: string) => {
  return { folder, keys, against: undefined, origin: undefined, allow_unsealed: false }
}

describe('a log with something else in the place of a file', function () {
  this.timeout(4 * LIMIT_MS)
  const dir = temporaryDir()

  it('is refused with the reason by both verifiers, which neither hang nor read it', () => {
    const template = join(dir.path, 'template')
    mkdirSync(template)
    const log = new LogBuilder(template, { retentionDays: 1, at: `${REMOVED}T10:00:00.000Z` })
    log.record(REMOVED)
    log.seal()
    log.at = `${DAY}T10:00:00.000Z`
    log.remove(REMOVED)
    log.record(DAY)
    log.seal()
    log.finish()
    const cases = files.flatMap((file) => {
      return Object.entries(replacements).map(([title, replace], at) => {
        const copy = join(dir.path, `${file.replaceAll('/', '-')}-${at}`)
        cpSync(template, copy, { recursive: true })
        replace(join(copy, file))
        return { title: `${title} in place of ${file}`, file, copy }
      })
    })
    const judged = verifyApart(cases.map(({ copy }) => copy))
    const python = verifyInPython(cases.map(({ copy }) => jobOf(copy, join(template, 'public-keys'))))
    for (const [at, { title, file }] of cases.entries()) {
      for (const { verdict, reason } of [judged[at]!, python[at]!]) {
        expect(verdict, title).to.equal('cannot_be_judged')
        expect(reason, title).to.include(file)
      }
    }
    const command = [svc, 'audit', 'verify', cases[0]!.copy, '--keys', join(template, 'public-keys')]
    expect(spawnSync(process.execPath, command, { timeout: LIMIT_MS }).status).to.equal(2)
  })
})

describe('a log with many copies of one checkpoint', function () {
  this.timeout(4 * LIMIT_MS)
  const dir = temporaryDir()

  it('is verified in time that grows with their number alone, by both verifiers', () => {
    const log = new LogBuilder(dir.path)
    log.record(DAY)
    log.seal()
    log.finish()
    const [file] = readdirSync(dir.path).filter((name) => name.endsWith('.checkpoint'))
    const path = join(dir.path, file!)
    const note = readFileSync(path, 'utf8')
      .split(/(?<=\n)(?=\S*svc-audit)/)
      .at(-1)!
    appendFileSync(path, note.repeat(COPIES))
    const [report] = verifyApart([dir.path])
    expect(report).to.deep.include({ verdict: 'intact', checkpoints: COPIES + 2 })
    const [python] = verifyInPython([jobOf(dir.path, join(dir.path, 'public-keys'))])
    expect(python).to.include({ verdict: 'intact' })
  })
})

describe('a log with an empty file of the tree', function () {
  this.timeout(4 * LIMIT_MS)
  const dir = temporaryDir()

  it('is intact for both verifiers, which end although it has no leaf', () => {
    const log = new LogBuilder(dir.path)
    log.record(DAY)
    log.seal()
    log.finish()
    truncateSync(join(dir.path, 'tree/0/0'), 0)
    expect(verifyApart([dir.path])[0]).to.include({ verdict: 'intact' })
    const [python] = verifyInPython([jobOf(dir.path, join(dir.path, 'public-keys'))])
    expect(python).to.include({ verdict: 'intact' })
  })
})
