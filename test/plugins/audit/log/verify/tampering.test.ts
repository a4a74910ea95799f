import { cpSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { EMPTY_ROOT } from '@svc/plugin-audit/internal/log/merkle/tree-hash'
import { checkpointText, originOf } from '@svc/plugin-audit/internal/log/seal/checkpoint'
import { signNote } from '@svc/plugin-audit/internal/log/seal/note'
import { LocalDevSigner, type VerifyReport, verifierFromPublicKey, verifyLog } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import fc from 'fast-check'
import { temporaryDir } from '../../temporary.js'
import { appenderIn, DAY, envelope, fixedClock, signer } from '../writer/records.js'
import { index, KINDS, SEALED, signed } from './tampering-kinds.js'

const BEFORE = '2026-11-20'
const SEALED_EVERY = 8
const UNSEALED = 3
const keys = [verifierFromPublicKey(signer.publicKey)]
const other = LocalDevSigner.fromSeed(new Uint8Array(32).fill(9))
const log = `audit-${DAY}.ndjson`
const checkpoints = `audit-${DAY}.checkpoint`
const tree = `audit-${DAY}.tree`

describe('verifyLog on a log that was tampered with', () => {
  const dir = temporaryDir()
  const path = (name: string) => join(dir.path, name)
  let template = ''

  before(async () => {
    template = mkdtempSync(join(tmpdir(), 'svc-audit-'))
    const key_id = signer.keyId
    const yesterday = appenderIn(template, { clock: fixedClock(`${BEFORE}T12:00:00Z`) })
    for (let i = 0; i < 5; i++) await yesterday.append(envelope({ ts: `${BEFORE}T10:00:00Z`, key_id }))
    await yesterday.close()
    const appender = appenderIn(template)
    for (let i = 1; i <= SEALED; i++) {
      await appender.append(envelope({ key_id }))
      if (i % SEALED_EVERY === 0) await appender.seal()
    }
    await appender.close()
    const after = appenderIn(template, { config: { checkpoints: false } })
    for (let i = 0; i < UNSEALED; i++) await after.append(envelope({ key_id }))
    await after.close()
  })

  after(() => rmSync(template, { recursive: true, force: true }))

  const reset = () => {
    rmSync(dir.path, { recursive: true, force: true })
    cpSync(template, dir.path, { recursive: true })
  }
  beforeEach(reset)

  const linesOf = (name = log) => readFileSync(path(name), 'utf8').trimEnd().split('\n')
  const write = (lines: readonly string[]) =>
    writeFileSync(path(log), lines.map((line) => `${line}\n`).join(''))
  const found = ({ failures }: VerifyReport) =>
    failures.map(({ file, line, kind }) => `${file}:${line}: ${kind}`)

  it('reports no failure on an untouched log, and counts unsealed records', async () => {
    for (const fast of [false, true]) {
      const report = await verifyLog(dir.path, { keys, fast })
      expect(report).to.deep.include({
        verdict: 'intact',
        failures: [],
        tornTails: [],
        tampering: {},
        records: 5 + SEALED + UNSEALED,
        sealed: 5 + SEALED,
        unsealed: UNSEALED,
        checkpoints: 1 + SEALED / SEALED_EVERY,
      })
      expect(report.verified).to.equal(fast ? 0 : report.records)
    }
  })

  for (const [title, tamper] of Object.entries(KINDS)) {
    it(`finds and locates ${title}`, async () => {
      await fc.assert(
        fc.asyncProperty(index, index, fc.boolean(), async (i, j, fast) => {
          reset()
          const { lines, kind, records, at } = tamper(linesOf(), i, j)
          write(lines)
          const report = await verifyLog(dir.path, { keys, fast })
          expect(report.verdict).to.equal('not_intact')
          // Without judging records, those after the end cannot be told from replaced ones.
          const exact = !(fast && kind === 'truncated')
          if (exact) expect(report.tampering).to.deep.equal({ [kind]: records })
          const named = report.failures.filter(({ file }) => file === log).map(({ line }) => line)
          expect(at, `${JSON.stringify(found(report))}`).to.include(named[0])
          if (exact) expect(named).to.have.length(1)
        }),
        { numRuns: 25 },
      )
    })

    it(`finds ${title} between two checkpoints without the tree`, async () => {
      await fc.assert(
        fc.asyncProperty(index, index, async (i, j) => {
          reset()
          rmSync(path(tree))
          const { lines, sealed } = tamper(linesOf(), i, j)
          write(lines)
          const report = await verifyLog(dir.path, { keys, fast: true })
          expect(report.verdict).to.equal('not_intact')
          const [failure] = report.failures
          expect(failure?.kind).to.be.oneOf(['altered', 'truncated'])
          const [, from = failure?.line, to = SEALED] =
            /lines (\d+) to (\d+)/.exec(failure?.message ?? '') ?? []
          // The checkpoint interval in which the change begins.
          const start = Math.floor((sealed - 1) / SEALED_EVERY) * SEALED_EVERY
          expect(Number(from)).to.be.within(start + 1, Math.max(start + 1, sealed))
          expect(Number(to)).to.be.at.least(sealed)
        }),
        { numRuns: 12 },
      )
    })
  }

  it('locates several changes at once', async () => {
    const lines = linesOf()
    const changed = lines
      .toSpliced(30, 1)
      .with(25, signed())
      .toSpliced(20, 0, lines[3]!)
      .toSpliced(10, 2)
      .toSpliced(5, 0, signed(), signed())
    write(changed)
    const report = await verifyLog(dir.path, { keys })
    expect(found(report)).to.deep.equal([
      `${log}:6: inserted`,
      `${log}:7: inserted`,
      `${log}:13: deleted`,
      `${log}:21: duplicated`,
      `${log}:27: edited`,
      `${log}:32: deleted`,
    ])
    expect(report.tampering).to.deep.equal({ inserted: 2, deleted: 3, duplicated: 1, edited: 1 })
    expect(report.unsealed).to.equal(UNSEALED)
  })

  it('ignores a damaged tree beside an intact log', async () => {
    writeFileSync(path(tree), Buffer.alloc(4_000, 7))
    expect((await verifyLog(dir.path, { keys })).verdict).to.equal('intact')
    write(linesOf().toSpliced(12, 1))
    expect(found(await verifyLog(dir.path, { keys }))[0]).to.equal(`${log}:9: altered`)
  })

  it('reports a missing day, alone or with all its files', async () => {
    rmSync(path(`audit-${BEFORE}.ndjson`))
    expect(found(await verifyLog(dir.path, { keys }))).to.deep.equal([
      `audit-${BEFORE}.ndjson:0: missing_day`,
    ])
    rmSync(path(`audit-${BEFORE}.checkpoint`))
    rmSync(path(`audit-${BEFORE}.tree`))
    expect(found(await verifyLog(dir.path, { keys }))).to.deep.equal([
      `audit-${BEFORE}.ndjson:0: missing_day`,
    ])
  })

  it('reports a day that was truncated with its checkpoints, from the head that the next day names', async () => {
    const file = `audit-${BEFORE}.ndjson`
    writeFileSync(path(file), linesOf(file).slice(0, 2).join('\n').concat('\n'))
    rmSync(path(`audit-${BEFORE}.checkpoint`))
    const report = await verifyLog(dir.path, { keys })
    expect(found(report)).to.deep.equal([`${file}:3: truncated`])
    expect(report.tampering).to.deep.equal({ truncated: 3 })
  })

  it('reports a day that the holder of the key rewrote, from the head that the next day names', async () => {
    const file = `audit-${BEFORE}.ndjson`
    for (const kind of ['ndjson', 'checkpoint', 'tree']) rmSync(path(`audit-${BEFORE}.${kind}`))
    const forger = appenderIn(dir.path, { clock: fixedClock(`${BEFORE}T12:00:00Z`) })
    for (let i = 0; i < 6; i++) await forger.append(envelope({ ts: `${BEFORE}T10:00:00Z` }))
    await forger.close()
    expect(found(await verifyLog(dir.path, { keys }))).to.deep.equal([`${file}:1: altered`])
  })

  it('accepts a missing day with a signed statement of removal', async () => {
    const retaining = appenderIn(dir.path, {
      clock: fixedClock('2026-11-22T12:00:00Z'),
      config: { retentionDays: 1 },
    })
    await retaining.ready()
    await retaining.close()
    expect(existsSync(path(`audit-${BEFORE}.ndjson`))).to.equal(false)
    const report = await verifyLog(dir.path, { keys })
    expect(report).to.deep.include({ verdict: 'intact', removedDays: [BEFORE] })
    rmSync(path('audit-removed.notes'))
    expect(found(await verifyLog(dir.path, { keys }))).to.deep.equal([
      `audit-${BEFORE}.ndjson:0: missing_day`,
    ])
  })

  it('rejects an edited statement', async () => {
    const retaining = appenderIn(dir.path, {
      clock: fixedClock('2026-11-22T12:00:00Z'),
      config: { retentionDays: 1 },
    })
    await retaining.ready()
    await retaining.close()
    const notes = path('audit-removed.notes')
    writeFileSync(notes, readFileSync(notes, 'utf8').replace(' 5 ', ' 6 '))
    expect(found(await verifyLog(dir.path, { keys }))).to.deep.equal([
      'audit-removed.notes:1: bad_signature',
      `audit-${BEFORE}.ndjson:0: missing_day`,
    ])
  })

  it('reports checkpoints that were edited, signed by an unknown key, out of order, or malformed', async () => {
    const notes = readFileSync(path(checkpoints), 'utf8').split(/(?<=\n)(?=svc-audit)/)
    const origin = originOf(signer.keyId, DAY)
    const strange = await signNote(
      checkpointText(originOf(other.keyId, DAY), { day: DAY, size: SEALED + 1, root: EMPTY_ROOT }, undefined),
      originOf(other.keyId, DAY),
      other,
    )
    const forged = await signNote(
      checkpointText(origin, { day: DAY, size: SEALED + 1, root: EMPTY_ROOT }, undefined),
      origin,
      {
        ...other,
        publicKey: signer.publicKey,
        keyId: signer.keyId,
        sign: (data) => other.sign(data),
        verify: () => true,
      },
    )
    for (const [changed, expected] of [
      [notes.with(1, notes[1]!.replace('\n16\n', '\n17\n')), [`${checkpoints}:7: bad_signature`]],
      [notes.with(1, notes[1]!.replace('\n16\n', '\n016\n')), [`${checkpoints}:7: bad_checkpoint`]],
      [[...notes, strange], [`${checkpoints}:27: unknown_key`]],
      [[...notes, forged], [`${checkpoints}:27: bad_signature`]],
      [[...notes, notes[2]!], [`${checkpoints}:27: bad_checkpoint`]],
      [['garbage\n', ...notes], [`${checkpoints}:1: bad_checkpoint`]],
    ] as const) {
      writeFileSync(path(checkpoints), changed.join(''))
      expect(found(await verifyLog(dir.path, { keys }))).to.deep.equal(expected)
    }
  })

  it('reports a torn checkpoint of a sealer that died, without a failure', async () => {
    const whole = readFileSync(path(checkpoints), 'utf8')
    writeFileSync(path(checkpoints), whole.slice(0, -10))
    const report = await verifyLog(dir.path, { keys })
    expect(report).to.deep.include({ verdict: 'intact', failures: [], unsealed: UNSEALED + SEALED_EVERY })
    expect(report.tornTails.map(({ file, kind }) => [file, kind])).to.deep.equal([[checkpoints, 'torn_tail']])
  })

  it('finds a log truncated with its checkpoints and tree only against a head kept elsewhere', async () => {
    const kept = path('kept-elsewhere')
    renameSync(path(checkpoints), kept)
    const text = readFileSync(kept, 'utf8')
    writeFileSync(
      path(checkpoints),
      text
        .split(/(?<=\n)(?=svc-audit)/)
        .slice(0, 2)
        .join(''),
    )
    write(linesOf().slice(0, 16))
    expect((await verifyLog(dir.path, { keys })).verdict).to.equal('intact')
    rmSync(path(tree))
    const report = await verifyLog(dir.path, { keys, against: kept })
    expect(found(report)).to.deep.equal([`${log}:17: truncated`])
    for (const kind of ['ndjson', 'checkpoint']) rmSync(path(`audit-${DAY}.${kind}`))
    const gone = await verifyLog(dir.path, { keys, against: kept })
    expect(found(gone)).to.deep.equal([`${log}:0: missing_day`])
  })

  it('refuses a head that no known key signed', async () => {
    const kept = path('kept-elsewhere')
    writeFileSync(kept, readFileSync(path(checkpoints), 'utf8').replace('\n40\n', '\n41\n'))
    const error = await verifyLog(dir.path, { keys, against: kept }).then(null, (reason) => reason)
    expect(error).to.include({ code: 'read_failed' })
  })

  it('reports no failure in a log that is being written and sealed', async () => {
    const appender = appenderIn(dir.path)
    let done = false
    const writing = (async () => {
      for (let i = 0; i < 300; i++) {
        await appender.append(envelope({ key_id: signer.keyId }))
        if (i % 7 === 0) await appender.seal()
      }
      done = true
    })()
    while (!done) expect((await verifyLog(dir.path, { keys })).failures).to.deep.equal([])
    await writing
    await appender.close()
  })
})
