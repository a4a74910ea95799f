import { createHash } from 'node:crypto'
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseProof, proofText } from '@svc/plugin-audit/internal/log/format/proof-text'
import { publicKeyLine } from '@svc/plugin-audit/internal/log/format/verifier'
import { EMPTY_ROOT } from '@svc/plugin-audit/internal/log/merkle/tree-hash'
import { LocalDevSigner, verifierFromPublicKey } from '@svc/plugin-audit/log'
import {
  checkConsistency,
  checkProof,
  checkProofs,
  proveRecord,
  proveRecords,
  vkeysOfLog,
} from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import fc from 'fast-check'
import { LogBuilder, noteOf } from '../../../../../support/audit-log.js'
import { temporaryDir } from '../../../../../support/temporary-dir.js'
import { openNote } from '../../seal/independent-verifier.js'
import { appenderIn, codeOf, DAY, envelope, signer } from '../../writer/records.js'

const keys = [verifierFromPublicKey(signer.publicKey)]
const other = LocalDevSigner.fromSeed(new Uint8Array(32).fill(9))
const trace = (i: number) => i.toString(16).padStart(32, '0')

/** Checks a proof as c2sp.org/tlog-proof and RFC 6962 specify, with node:crypto alone. */
function provenRecord(proof: string): string {
  const end = proof.indexOf('\n\n')
  const [version, extra = '', index = '', ...path] = proof.slice(0, end).split('\n')
  expect(version).to.equal('c2sp.org/tlog-proof@v1')
  const note = proof.slice(end + 2)
  const origin = note.slice(0, note.indexOf('\n'))
  const [, size = '', root] = openNote(note, origin, signer.publicKey).split('\n')
  const record = Buffer.from(extra.slice('extra '.length), 'base64')
  const sha256 = (...parts: Uint8Array[]) => createHash('sha256').update(Buffer.concat(parts)).digest()
  let node = sha256(Buffer.of(0), record)
  // RFC 9162 §2.1.3.2 gives the walk that RFC 6962 leaves to the reader.
  let [fn, sn] = [Number(index.slice('index '.length)), Number(size) - 1]
  for (const sibling of path.map((hash) => Buffer.from(hash, 'base64'))) {
    if (fn % 2 === 1 || fn === sn) {
      node = sha256(Buffer.of(1), sibling, node)
      while (fn % 2 === 0 && fn !== 0) [fn, sn] = [fn >> 1, sn >> 1]
    } else {
      node = sha256(Buffer.of(1), node, sibling)
    }
    ;[fn, sn] = [fn >> 1, sn >> 1]
  }
  expect(sn).to.equal(0)
  expect(node.toString('base64')).to.equal(root)
  return record.toString()
}

describe('proveRecord', () => {
  const dir = temporaryDir()
  const lines = () =>
    readFileSync(join(dir.path, `audit-${DAY}.ndjson`), 'utf8')
      .trimEnd()
      .split('\n')

  async function logOf(count: number): Promise<void> {
    await using appender = appenderIn(dir.path)
    for (let i = 0; i < count; i++)
      await appender.append(envelope({ trace_id: trace(i), key_id: signer.keyId }))
  }

  it('proves every record of a log of any size, even to an independent verifier', async () => {
    let count = 0
    for (const size of [1, 2, 7, 13]) {
      const appender = appenderIn(dir.path)
      for (; count < size; count++) await appender.append(envelope({ trace_id: trace(count) }))
      await appender.close()
      for (let i = 0; i < size; i++) {
        const proof = await proveRecord(dir.path, { traceId: trace(i) })
        expect(provenRecord(proof)).to.equal(lines()[i])
        expect(await checkProof(proof, keys)).to.deep.include({ valid: true, keyId: signer.keyId })
      }
    }
  })

  it('proves the records before and after a fault, from which sealing has gone on', async () => {
    const log = new LogBuilder(dir.path)
    const named = (from: number, to: number) => {
      for (let i = from; i < to; i++) log.record(DAY, { trace_id: trace(i) })
    }
    named(0, 9)
    log.seal()
    const file = join(dir.path, `audit-${DAY}.ndjson`)
    const kept = readFileSync(file, 'utf8')
      .split('\n')
      .slice(0, 4)
      .map((line) => `${line}\n`)
      .join('')
    writeFileSync(file, kept)
    const day = log.days.get(DAY)!
    const [sealed, resume] = [day.end, kept.length]
    log.journal({ kind: 'fault', day: DAY, sealed, found: resume, resume })
    Object.assign(day, { end: resume, lines: day.lines.slice(0, 4), sealed: 4 })
    named(9, 12)
    log.seal()
    log.finish()
    const signedBy = [verifierFromPublicKey(log.signer.publicKey)]
    for (const i of [0, 3, 9, 11]) {
      const proof = await proveRecord(dir.path, { traceId: trace(i) })
      expect(await checkProof(proof, signedBy)).to.deep.include({ valid: true })
    }
  })

  it('proves with the newest checkpoint that the log has signed, not with a forged one after it', async () => {
    await logOf(3)
    const path = join(dir.path, `audit-${DAY}.checkpoint`)
    const newest = readFileSync(path, 'utf8')
      .split(/(?<=\n)(?=\S*svc-audit)/)
      .at(-1)!
    for (const forged of [
      newest.replace(/.{20}(?=.{8}\n$)/, 'A'.repeat(20)),
      newest.replace(/\n5\n/, '\n6\n'),
    ]) {
      expect(forged).to.not.equal(newest)
      appendFileSync(path, forged)
      expect(await checkProof(await proveRecord(dir.path, { traceId: trace(1) }), keys)).to.include({
        valid: true,
      })
    }
  })

  it('requires the span id if several records have the trace id', async () => {
    const appender = appenderIn(dir.path)
    const records = [envelope({ trace_id: 'aa' }), envelope({ trace_id: 'aa' }), envelope({ trace_id: 'bb' })]
    for (const record of records) await appender.append(record)
    await appender.close()
    const error = await proveRecord(dir.path, { traceId: 'aa' }).then(null, (reason) => reason)
    expect(error).to.include({ code: 'ambiguous' })
    for (const record of records.slice(0, 2)) expect(error.message).to.include(record.span_id)
    const proof = await proveRecord(dir.path, { traceId: 'aa', spanId: records[1]!.span_id })
    expect(provenRecord(proof)).to.include(records[1]!.span_id)
  })

  it('reports why there is no proof', async () => {
    await logOf(4)
    expect(await codeOf(proveRecord(dir.path, { traceId: 'none' }))).to.equal('not_found')
    appendFileSync(join(dir.path, `audit-${DAY}.ndjson`), `${lines()[0]!.replace(trace(0), 'late')}\n`)
    expect(await codeOf(proveRecord(dir.path, { traceId: 'late' }))).to.equal('not_sealed')
    writeFileSync(join(dir.path, `audit-${DAY}.ndjson`), lines().toSpliced(1, 1).join('\n').concat('\n'))
    expect(await codeOf(proveRecord(dir.path, { traceId: trace(3) }))).to.equal('log_unlinked')
  })

  it('is invalid after any single byte was changed', async () => {
    await logOf(9)
    const proof = Buffer.from(await proveRecord(dir.path, { traceId: trace(5) }))
    await fc.assert(
      fc.asyncProperty(fc.nat(proof.length - 1), fc.integer({ min: 1, max: 255 }), async (at, difference) => {
        const changed = Buffer.from(proof)
        changed[at] = changed[at]! ^ difference
        expect((await checkProof(changed.toString('utf8'), keys)).valid).to.equal(false)
      }),
      { numRuns: 300 },
    )
  })

  it('is invalid with another key, another record, or missing parts', async () => {
    await logOf(9)
    const proof = await proveRecord(dir.path, { traceId: trace(5) })
    expect(await checkProof(proof, [verifierFromPublicKey(other.publicKey)])).to.deep.equal({
      valid: false,
      reason: 'its checkpoint is signed by none of the keys',
    })
    const record = (line: string) => `extra ${Buffer.from(line).toString('base64')}`
    expect(await checkProof(proof.replace(/^extra .*$/m, record(lines()[4]!)), keys)).to.deep.equal({
      valid: false,
      reason: 'the record does not lead to the root of its checkpoint',
    })
    for (const broken of [
      '',
      proof.replace('@v1', '@v2'),
      proof.replace(/^extra .*\n/m, ''),
      proof.replace(/^index /m, 'index 0'),
      proof.replace(/^index .*$/m, 'index 50'),
      proof.replace('\n\n', '\n'),
      proof.replace('\n\n', '\nAAAA\n\n'),
      proof.slice(0, proof.indexOf('\n\n') + 2),
    ]) {
      expect((await checkProof(broken, keys)).valid).to.equal(false)
    }
    expect(parseProof('')).to.equal(undefined)
  })

  it('is invalid for a record that an unknown key signed, even in the log', async () => {
    const log = new LogBuilder(dir.path)
    log.record(DAY, { trace_id: 'forged' }, other)
    log.seal()
    log.finish()
    const judged = await checkProof(await proveRecord(dir.path, { traceId: 'forged' }), keys)
    expect(judged).to.include({ valid: false })
    expect(judged).to.have.property('reason').that.includes('unknown_key')
  })

  it('is invalid for a line of the journal', async () => {
    await logOf(1)
    const line = Buffer.from(readFileSync(join(dir.path, 'audit.journal'), 'utf8').split('\n')[0]!)
    const note = readFileSync(join(dir.path, `audit-${DAY}.checkpoint`), 'utf8').split(
      /(?<=\n)(?=\S*svc-audit)/,
    )[0]!
    const proof = proofText({ record: line, index: 0, path: [], checkpoint: note })
    expect(await checkProof(proof, keys)).to.deep.equal({
      valid: false,
      reason: 'it proves a line of the journal, not a record',
    })
  })
})

describe('proveRecords', () => {
  const dir = temporaryDir()

  it('proves every record that matches, over several days and ranges, in one text', async () => {
    const log = new LogBuilder(dir.path)
    for (let i = 0; i < 20; i++) {
      log.record(i % 2 === 0 ? DAY : '2026-11-20', {
        tenant: i % 3 === 0 ? 'sought' : 'acme',
        trace_id: trace(i),
      })
      if (i % 4 === 3) log.seal()
    }
    log.finish()
    const text = await proveRecords(dir.path, { tenant: 'sought' })
    const judged = await checkProofs(text, keys)
    expect(judged.map((one) => one.valid && one.record['trace_id']).sort()).to.deep.equal(
      [0, 3, 6, 9, 12, 15, 18].map(trace).sort(),
    )
    expect(
      (await checkProofs(text.replace('index ', 'index 1'), keys)).filter(({ valid }) => !valid),
    ).to.have.length(1)
    expect(await codeOf(proveRecords(dir.path, { tenant: 'nobody' }))).to.equal('not_found')
  })

  it('proves records of many days, which late records have in several ranges', async () => {
    const days = Array.from({ length: 6 }, (_, i) => `2026-11-2${i}`)
    const log = new LogBuilder(dir.path)
    for (const day of days) {
      log.record(day)
      log.record('2026-11-20')
      log.seal()
    }
    log.finish()
    for (const some of [days, days.slice(0, 1)]) {
      const until = some === days ? {} : { until: days[1]! }
      const proofs = await checkProofs(await proveRecords(dir.path, until), keys)
      expect(proofs.filter(({ valid }) => valid)).to.have.length(some === days ? 12 : 7)
    }
  })
})

describe('checkConsistency', () => {
  const dir = temporaryDir()
  const heads: string[] = []

  beforeEach(() => {
    const log = new LogBuilder(dir.path)
    heads.length = 0
    for (let i = 0; i < 30; i++) {
      log.record(DAY)
      if (i % 7 !== 0) continue
      log.seal()
      heads.push(log.note())
    }
    log.finish()
  })

  it('shows that each checkpoint is a prefix of each later one', async () => {
    for (const [at, older] of heads.entries()) {
      for (const newer of heads.slice(at)) {
        expect(await checkConsistency(dir.path, older, newer, keys)).to.include({ consistent: true })
      }
    }
  })

  it('fails for another root, another order, another log and another key', async () => {
    const [older, newer] = [heads[1]!, heads[3]!]
    const log = { origin: older.split('\n')[0]!, size: Number(older.split('\n')[1]) }
    const forged = noteOf({ ...log, root: EMPTY_ROOT }, [signer])
    const foreign = noteOf({ ...log, origin: 'svc-audit.invalid/other', root: EMPTY_ROOT }, [signer])
    for (const [first, second, by, reason] of [
      [forged, newer, keys, /does not lead/],
      [newer, older, keys, /has \d+ leaves/],
      [foreign, newer, keys, /they are of/],
      [older, newer, [verifierFromPublicKey(other.publicKey)], /none of the keys/],
      [older, 'hello', keys, /newer checkpoint is not a checkpoint/],
    ] as const) {
      const judged = await checkConsistency(dir.path, first, second, by)
      expect(judged).to.include({ consistent: false })
      expect(judged).to.have.property('reason').that.matches(reason)
    }
  })
})

describe('vkeysOfLog', () => {
  const dir = temporaryDir()

  it('gives a verifier key of signed-note for each key that is trusted now', async () => {
    const log = new LogBuilder(dir.path)
    log.journal({ kind: 'key', key: publicKeyLine(other.publicKey) })
    log.journal({ kind: 'key', retired: signer.keyId, until: log.size + 1 })
    const [key, ...more] = await vkeysOfLog(dir.path)
    expect(more).to.deep.equal([])
    const [name, id, encoded] = key!.split('+')
    expect(name).to.equal(log.origin)
    const bytes = Buffer.from(encoded!, 'base64')
    expect(bytes).to.deep.equal(Buffer.concat([Buffer.of(1), other.publicKey]))
    const preimage = Buffer.concat([Buffer.from(`${name}\n`), bytes])
    expect(id).to.equal(createHash('sha256').update(preimage).digest('hex').slice(0, 8))
  })
})
