import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseProof } from '@svc/plugin-audit/internal/log/prove/proof-text'
import { checkProof, LocalDevSigner, proveRecord, verifierFromPublicKey } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import fc from 'fast-check'
import { temporaryDir } from '../../temporary.js'
import { openNote } from '../seal/independent-verifier.js'
import { appenderIn, codeOf, DAY, envelope, signer } from '../writer/records.js'

const keys = [verifierFromPublicKey(signer.publicKey)]
const other = LocalDevSigner.fromSeed(new Uint8Array(32).fill(9))
const trace = (i: number) => i.toString(16).padStart(32, '0')

/** Checks a proof as c2sp.org/tlog-proof and RFC 6962 alone say, with node:crypto alone. */
function provenRecord(proof: string): string {
  const end = proof.indexOf('\n\n')
  const [version, extra = '', index = '', ...path] = proof.slice(0, end).split('\n')
  expect(version).to.equal('c2sp.org/tlog-proof@v1')
  const origin = `svc-audit/${signer.keyId}/${DAY}`
  const [, size = '', root] = openNote(proof.slice(end + 2), origin, signer.publicKey).split('\n')
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
    const appender = appenderIn(dir.path)
    for (let i = 0; i < count; i++)
      await appender.append(envelope({ trace_id: trace(i), key_id: signer.keyId }))
    await appender.close()
  }

  it('proves every record of a log of any size, also to an independent verifier', async () => {
    let count = 0
    for (const size of [1, 2, 7, 13]) {
      const appender = appenderIn(dir.path)
      for (; count < size; count++) await appender.append(envelope({ trace_id: trace(count) }))
      await appender.close()
      for (let i = 0; i < size; i++) {
        const proof = await proveRecord(dir.path, { traceId: trace(i) })
        expect(provenRecord(proof)).to.equal(lines()[i])
        expect(checkProof(proof, keys)).to.deep.include({ valid: true, day: DAY, line: i + 1, size })
      }
    }
  })

  it('requires the span id where several records have the trace id', async () => {
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
    const after = appenderIn(dir.path, { config: { checkpoints: false } })
    await after.append(envelope({ trace_id: 'late' }))
    await after.close()
    expect(await codeOf(proveRecord(dir.path, { traceId: 'late' }))).to.equal('not_sealed')
    writeFileSync(join(dir.path, `audit-${DAY}.ndjson`), lines().toSpliced(1, 1).join('\n').concat('\n'))
    expect(await codeOf(proveRecord(dir.path, { traceId: trace(3) }))).to.equal('sealed_log_changed')
  })

  it('is invalid after any single byte was changed', async () => {
    await logOf(9)
    const proof = Buffer.from(await proveRecord(dir.path, { traceId: trace(5) }))
    fc.assert(
      fc.property(fc.nat(proof.length - 1), fc.integer({ min: 1, max: 255 }), (at, difference) => {
        const changed = Buffer.from(proof)
        changed[at] = changed[at]! ^ difference
        expect(checkProof(changed.toString('utf8'), keys).valid).to.equal(false)
      }),
      { numRuns: 300 },
    )
  })

  it('is invalid with another key, another record, or missing parts', async () => {
    await logOf(9)
    const proof = await proveRecord(dir.path, { traceId: trace(5) })
    expect(checkProof(proof, [verifierFromPublicKey(other.publicKey)])).to.deep.equal({
      valid: false,
      reason: 'its checkpoint is signed by none of the keys',
    })
    const record = (line: string) => `extra ${Buffer.from(line).toString('base64')}`
    expect(checkProof(proof.replace(/^extra .*$/m, record(lines()[4]!)), keys)).to.deep.equal({
      valid: false,
      reason: 'the record does not lead to the root of its checkpoint',
    })
    for (const broken of [
      '',
      proof.replace('@v1', '@v2'),
      proof.replace(/^extra .*\n/m, ''),
      proof.replace('index 5', 'index 05'),
      proof.replace('index 5', 'index 50'),
      proof.replace('\n\n', '\n'),
      proof.replace('\n\n', '\nAAAA\n\n'),
      proof.slice(0, proof.indexOf('\n\n') + 2),
    ]) {
      expect(checkProof(broken, keys).valid).to.equal(false)
    }
    expect(parseProof('')).to.equal(undefined)
  })

  it('is invalid for a record that an unknown key signed, even in the log', async () => {
    await logOf(2)
    const forger = appenderIn(dir.path, { signer: other, config: { checkpoints: false } })
    await forger.append(envelope({ trace_id: 'forged' }))
    await forger.close()
    const sealing = appenderIn(dir.path)
    await sealing.seal()
    await sealing.close()
    const judged = checkProof(await proveRecord(dir.path, { traceId: 'forged' }), keys)
    expect(judged).to.deep.equal({
      valid: false,
      reason: 'the record is at fault: bad_signature: the signature fits none of the keys',
    })
  })
})
