import { appendFileSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { continuesHead, readProof, readVerifierKeys, webChecker } from '@svc/plugin-audit/browser'
import { browseRecords, recordAt } from '@svc/plugin-audit/internal/log/tools/browse/browse-records'
import { browseProof, consistencyPath, LogDays } from '@svc/plugin-audit/internal/log/tools/browse/log-days'
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import { type LogFilter, logBrowser, readLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { LogBuilder } from '../../../../../support/audit-log.js'
import { temporaryDir } from '../../../../../support/temporary-dir.js'
import { buildLog, EARLY, PAST, REMOVED, TODAY } from '../verify/matrix/fixture.js'

async function all(dir: string, filter: LogFilter, limit: number, maxBytes?: number) {
  const found: { leaf: number | null; record: SignedEnvelope }[] = []
  let pages = 0
  for (let before: number | undefined; ; pages++) {
    const { records, next } = await browseRecords(dir, filter, {
      limit,
      ...(before === undefined ? {} : { before }),
      ...(maxBytes === undefined ? {} : { maxBytes }),
    })
    expect(records.length).to.be.at.most(limit)
    found.push(...records)
    if (next === null) return { found, pages }
    if (before !== undefined) expect(next).to.be.below(before)
    before = next
  }
}

async function read(dir: string, filter: LogFilter): Promise<string[]> {
  const ids: string[] = []
  for await (const { span_id } of readLog(dir, filter)) ids.push(span_id)
  return ids
}

describe('browsing a log', () => {
  const dir = temporaryDir()

  it('finds every record once, page by page, the newest leaf first, whatever the filter', async () => {
    buildLog(dir.path)
    const filters: LogFilter[] = [
      {},
      { since: PAST },
      { until: PAST },
      { since: EARLY, until: TODAY },
      { tenant: 'nobody' },
      { spanId: '0000000000000010' },
    ]
    for (const filter of filters) {
      const expected = (await read(dir.path, filter)).sort()
      for (const [limit, maxBytes] of [[1], [3], [100], [100, 1], [2, 1500]] as const) {
        // The two that are not sealed are only on a first page that has room for them.
        const { found } = await all(dir.path, filter, Math.max(limit, 2), maxBytes)
        expect(found.map(({ record }) => record.span_id).sort()).to.deep.equal(expected)
        const leaves = found.flatMap(({ leaf }) => leaf ?? [])
        expect(leaves).to.deep.equal(leaves.toSorted((a, b) => b - a))
      }
    }
  })

  it('finds a record once that is sealed while it is read', async () => {
    const log = new LogBuilder(dir.path)
    log.record(TODAY)
    log.seal()
    log.record(TODAY)
    const reading = browseRecords(dir.path, {}, { limit: 10 })
    log.seal()
    const { records } = await reading
    expect(records.map(({ leaf }) => leaf)).to.deep.equal([null, 1])
  })

  it('finds the record at each leaf, and none at lines of the journal and in removed days', async () => {
    const log = buildLog(dir.path)
    const { found } = await all(dir.path, {}, 100)
    const records = new Map(
      found.flatMap(({ leaf, record }) => (leaf === null ? [] : [[leaf, record.span_id]])),
    )
    expect(records.size).to.be.at.least(30)
    for (let leaf = 0; leaf < log.size + 3; leaf++) {
      const line = recordAt(dir.path, leaf)?.line.toString()
      expect(line && JSON.parse(line).span_id, `leaf ${leaf}`).to.equal(records.get(leaf))
    }
  })

  it('reads a small part of a long journal', async () => {
    const log = new LogBuilder(dir.path)
    for (let i = 0; i < 1500; i++) {
      log.record(TODAY)
      log.seal({ checkpoint: i === 1499 })
    }
    for (const before of [2, 777, 1500, 2999]) {
      const { records } = await browseRecords(dir.path, {}, { limit: 5, before })
      expect(records[0]?.leaf).to.equal(before % 2 === 0 ? before - 1 : before - 2)
    }
  })

  it('gives proofs that the verifier for browsers accepts, and shows a record that was changed as changed', async () => {
    const log = buildLog(dir.path)
    const older = Number(log.note().split('\n')[1])
    const kept = { origin: log.origin, size: older, root: log.note().split('\n')[2] ?? '' }
    log.record(TODAY, { tenant: 'late' })
    log.seal()
    log.finish()
    const { found } = await all(dir.path, {}, 100)
    const path = consistencyPath(dir.path, older, log.size)
    for (const { leaf } of found) {
      const made = await browseProof(dir.path, leaf ?? 0)
      const given = readVerifierKeys(made?.keys.join('\n') ?? '')
      const proof = readProof(made?.proof ?? '')!
      expect(await webChecker(given).check(proof, made?.sealed_sha256)).to.include({ state: 'ok' })
      expect(continuesHead(kept, proof.head, path)).to.include({
        state: 'ok',
      })
    }
    const file = join(dir.path, `audit-${TODAY}.ndjson`)
    writeFileSync(file, readFileSync(file, 'utf8').replace('"status":"ok"', '"status":"no"'))
    const leaf =
      found.find(({ record }) => record.ts.startsWith(TODAY) && record.seq?.endsWith(':0'))?.leaf ?? 0
    const made = await browseProof(dir.path, leaf)
    const checked = await webChecker(readVerifierKeys(made?.keys.join('\n') ?? '')).check(
      readProof(made?.proof ?? '')!,
      made?.sealed_sha256,
    )
    expect(checked.state).to.equal('failed')
    expect(checked.inclusion).to.include({
      reason: 'the record was changed after it was sealed',
      expected: made?.sealed_sha256,
    })
    expect(await browseProof(dir.path, 10_000)).to.equal(undefined)
  })

  it('says of each day what the log has of it, and reads on from where it was', async () => {
    const log = buildLog(dir.path)
    const days = new LogDays(dir.path)
    const states = async () =>
      Object.fromEntries(
        (await days.summary()).days.map(({ day, state, records }) => [day, `${state} ${records}`]),
      )
    const before = await states()
    expect(before).to.deep.equal({
      [REMOVED]: 'removed 5',
      '2026-11-16': 'empty 0',
      '2026-11-17': 'empty 0',
      '2026-11-18': 'empty 0',
      [EARLY]: 'sealed 10',
      [PAST]: 'sealed 14',
      [TODAY]: 'open 12',
    })
    log.seal()
    expect(await states()).to.deep.equal({ ...before, [TODAY]: 'sealed 14' })
    truncateSync(join(dir.path, `audit-${EARLY}.ndjson`), 100)
    rmSync(join(dir.path, `audit-${PAST}.ndjson`))
    expect(await states()).to.include({ [EARLY]: 'gap 10', [PAST]: 'gap 14' })
    const { head, origin, keys, cosigned } = await days.summary()
    expect(head).to.include({ size: log.size, root: log.root() })
    expect([origin, cosigned]).to.deep.equal([log.origin, null])
    expect(keys).to.have.length(3)
  })

  it('is done in a thread, whose errors have the codes of the log', async () => {
    buildLog(dir.path)
    const { records } = await logBrowser.call('records', dir.path, {}, { limit: 3 })
    expect(records).to.have.length(3)
    appendFileSync(join(dir.path, `audit-${TODAY}.ndjson`), 'not a record\n')
    expect((await logBrowser.call('records', dir.path, {}, { limit: 3 })).records).to.have.length(3)
    const error = await logBrowser
      .call('records', dir.path, { since: 'x' }, { limit: 3 })
      .then(null, (e) => e)
    expect(error).to.include({ code: 'bad_timestamp' })
  })
})
