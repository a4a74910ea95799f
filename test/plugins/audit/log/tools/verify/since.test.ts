import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { publicKeyLine, verifierFromPublicKey } from '@svc/plugin-audit/log'
import { type VerifyReport, verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import type { LogBuilder } from '../../../../../support/audit-log.js'
import { rejectionOf } from '../../../../../support/rejection.js'
import { buildLog, EARLY, Files, first, PAST, TODAY, third } from './matrix/fixture.js'
import { manipulations } from './matrix/manipulations.js'

const keys = [verifierFromPublicKey(first.publicKey)]
const today = `audit-${TODAY}.ndjson`

describe('verifyLog since a head', () => {
  let root = ''
  let log: LogBuilder
  let [template, head] = ['', '']
  /** Leaves of the head, and the journal lines that it covers. */
  let [size, lines] = [0, 0]

  before(() => {
    root = mkdtempSync(join(tmpdir(), 'svc-since-'))
    template = join(root, 'template')
    head = join(root, 'head')
    log = buildLog(template)
    const notes = readFileSync(join(template, `audit-${PAST}.checkpoint`), 'utf8').split(/(?<=\n)(?=svc)/)
    const note = notes.at(-1) ?? ''
    writeFileSync(head, note)
    size = Number(note.split('\n')[1])
    lines = log.lines.filter((line) => JSON.parse(line).leaf < size).length
  })

  after(() => rmSync(root, { recursive: true, force: true }))

  function copy(): Files {
    const dir = mkdtempSync(join(root, 'copy-'))
    cpSync(template, dir, { recursive: true })
    return new Files(dir)
  }

  const listed = ({ failures }: VerifyReport) =>
    failures.map(({ file, line, kind }) => `${file}:${line}: ${kind}`).sort()

  it('judges what follows, and says what it has not read', async () => {
    const report = await verifyLog(template, { keys, since: head })
    const whole = await verifyLog(template, { keys })
    expect(listed(report)).to.deep.equal([])
    expect(report).to.deep.include({ verdict: 'intact', compared: true, earlierFaults: [] })
    expect(report.since?.size).to.equal(size)
    expect(report.head).to.deep.equal(whole.head)
    expect(report.journalLines).to.equal(whole.journalLines - lines)
    // Today, and the day that has grown by a late record.
    expect(report.files).to.equal(2)
  })

  it('finds a log intact that has nothing after the head', async () => {
    const newest = readFileSync(join(template, `audit-${TODAY}.checkpoint`), 'utf8')
    const path = join(root, 'newest')
    writeFileSync(path, newest)
    for (const fast of [false, true]) {
      const report = await verifyLog(template, { keys, since: path, fast })
      expect(report).to.deep.include({ verdict: 'intact', journalLines: 0, failures: [] })
      expect(report.head?.size).to.equal(log.size)
    }
  })

  it('does not read what the head covers', async () => {
    const files = copy()
    files.editLine(`audit-${EARLY}.ndjson`, 2, (line) => line.replace('acme', 'evil'))
    expect((await verifyLog(files.dir, { keys, since: head })).verdict).to.equal('intact')
    expect((await verifyLog(files.dir, { keys })).verdict).to.equal('not_intact')
  })

  it('finds a day of before that has become shorter, or is missing', async () => {
    const files = copy()
    files.lines(`audit-${EARLY}.ndjson`, (l) => l.slice(0, -1))
    expect(listed(await verifyLog(files.dir, { keys, since: head }))).to.deep.equal([
      `audit-${EARLY}.ndjson:10: truncated`,
    ])
    files.remove(`audit-${EARLY}.ndjson`)
    expect(listed(await verifyLog(files.dir, { keys, since: head }))).to.deep.equal([
      `audit-${EARLY}.ndjson:0: missing_file`,
    ])
  })

  it('finds a number that a record of before has', async () => {
    const dir = mkdtempSync(join(root, 'repeated-'))
    const repeated = buildLog(dir, {
      after: (own) => {
        own.record(PAST, { seq: 'aaaaaaaaaaaaaaaa:3' })
        own.seal()
      },
    })
    expect(repeated.size).to.be.greaterThan(size)
    const [since, whole] = [await verifyLog(dir, { keys, since: head }), await verifyLog(dir, { keys })]
    expect(listed(since)).to.deep.equal([`audit-${PAST}.ndjson:15: replayed`])
    expect(listed(since)).to.deep.equal(listed(whole))
  })

  it('checks the cover of a day that was removed after the head, and its late records', async () => {
    const dir = mkdtempSync(join(root, 'removed-'))
    const removed = buildLog(dir, {
      after: (own) => {
        own.at = '2026-11-29T10:00:00.000Z'
        own.remove(EARLY)
        own.remove(PAST)
      },
    })
    expect(removed.days.has(PAST)).to.equal(false)
    const report = await verifyLog(dir, { keys, since: head })
    expect(listed(report)).to.deep.equal([])
    expect(report.removedDays).to.deep.equal([EARLY, PAST])
    for (const day of [EARLY, PAST]) writeFileSync(join(dir, `audit-${day}.cover`), Buffer.alloc(64, 7))
    expect(listed(await verifyLog(dir, { keys, since: head }))).to.deep.equal(
      [EARLY, PAST].map((day) => `audit-${day}.cover:0: bad_cover`),
    )
  })

  it('lists the faults that were stated before', async () => {
    const dir = mkdtempSync(join(root, 'fault-'))
    const broken = buildLog(dir, {
      after: (own) => {
        const { end } = own.days.get(PAST)!
        own.journal({ kind: 'fault', day: PAST, sealed: end, found: end, resume: end })
        own.checkpoint()
        writeFileSync(join(root, 'after-fault'), own.note())
        own.record(TODAY)
        own.seal()
      },
    })
    const report = await verifyLog(dir, { keys, since: join(root, 'after-fault') })
    expect(report.verdict).to.equal('intact')
    expect(report.earlierFaults?.map(({ file, line, kind }) => `${file}:${line}: ${kind}`)).to.deep.equal([
      `audit.journal:${broken.lines.length - 1}: fault`,
    ])
  })

  it('cannot judge a log in which a key is withdrawn from leaves before the head', async () => {
    const dir = mkdtempSync(join(root, 'withdrawn-'))
    buildLog(dir, {
      after: (own) => {
        const entered = own.lines
          .map((line) => JSON.parse(line))
          .find(({ key }) => key === publicKeyLine(third.publicKey))
        own.journal({ kind: 'revoke', revoked: third.keyId, until: entered.leaf + 1 })
        own.checkpoint()
      },
    })
    const report = await verifyLog(dir, { keys, since: head })
    expect(report).to.deep.include({ verdict: 'cannot_be_judged', failures: [] })
    expect(report.reason).to.include('verify the whole log')
    expect((await verifyLog(dir, { keys })).verdict).to.equal('intact')
  })

  it('judges the whole log if it does not lead to the head', async () => {
    const other = mkdtempSync(join(root, 'other-'))
    buildLog(other, { before: (own) => own.record(TODAY) })
    const rewritten = join(root, 'rewritten')
    writeFileSync(rewritten, log.note())
    const report = await verifyLog(other, { keys, since: rewritten })
    expect(listed(report)).to.deep.equal(['audit.journal:0: forked'])
    expect(report.since).to.equal(undefined)
    const damaged = copy()
    damaged.remove('tree')
    expect(await verifyLog(damaged.dir, { keys, since: head })).to.deep.include({
      verdict: 'intact',
      files: 3,
    })
  })

  it('finds a head that no key of the log has signed', async () => {
    const forged = join(root, 'forged')
    writeFileSync(forged, readFileSync(head, 'utf8').replace(/.{6}\n$/, 'AAAA==\n'))
    expect(listed(await verifyLog(template, { keys, since: forged }))).to.deep.equal([
      `${forged}:1: bad_signature`,
    ])
  })

  it('is refused with what needs the whole log', async () => {
    for (const option of [{ agents: true }, { passkeys: [] }])
      expect(await rejectionOf(verifyLog(template, { keys, since: head, ...option }))).to.include({
        code: 'bad_config',
      })
  })

  /** Whether the whole verification found it in what the head does not cover. */
  const isAfter = (failure: string): boolean => {
    const [, file = '', line = ''] = /^(.+):(\d+): \w+$/.exec(failure) ?? []
    if (file === today || file === `audit-${TODAY}.checkpoint`) return true
    return file === 'audit.journal' && Number(line) > lines
  }

  const tampered = manipulations.filter(
    ({ build, options, cannotBeJudged }) => !build && !options && !cannotBeJudged,
  )
  for (const { title, tamper } of tampered) {
    it(`finds what the whole verification finds after the head: ${title}`, async () => {
      const files = copy()
      tamper?.(files, log)
      const [since, whole] = [
        await verifyLog(files.dir, { keys, since: head }),
        await verifyLog(files.dir, { keys, against: head }),
      ]
      expect(listed(since)).to.include.members(listed(whole).filter(isAfter))
      expect(since.verdict === 'intact' || whole.verdict === 'not_intact').to.equal(true)
    })
  }
})
