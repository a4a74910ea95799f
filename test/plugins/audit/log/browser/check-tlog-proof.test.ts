import {
  continuesHead,
  readCheckpoint,
  readProof,
  readVerifierKeys,
  webChecker,
} from '@svc/plugin-audit/browser'
import { COSIGNATURE_TYPE } from '@svc/plugin-audit/internal/log/format/note'
import { publicKeyLine } from '@svc/plugin-audit/internal/log/format/verifier'
import { cosign, formatVkey } from '@svc/plugin-audit/internal/log/keys/signatures'
import { EMPTY_ROOT } from '@svc/plugin-audit/internal/log/merkle/tree-hash'
import { verifierFromPublicKey } from '@svc/plugin-audit/log'
import { checkConsistency, checkProof, proveRecords } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import fc from 'fast-check'
import { LogBuilder, noteOf, signerOf } from '../../../../support/audit-log.js'
import { propertyRuns } from '../../../../support/property-runs.js'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { DAY, signer } from '../writer/records.js'

const keys = [verifierFromPublicKey(signer.publicKey)]
const keyLine = publicKeyLine(signer.publicKey)
const other = signerOf(9)
const witness = signerOf(5)
const witnessName = 'witness.example/1'
const witnessLine = formatVkey(witnessName, COSIGNATURE_TYPE, witness.publicKey)
const splitProofs = (text: string) => text.split(/(?=^c2sp\.org\/tlog-proof@v1$)/m)

async function check(proof: string, given: string, sealed?: string) {
  const read = readProof(proof)
  return read === undefined ? undefined : webChecker(readVerifierKeys(given)).check(read, sealed)
}

describe('the verifier for browsers', () => {
  const dir = temporaryDir()
  let proofs: string[] = []
  let heads: string[] = []

  beforeEach(async () => {
    const log = new LogBuilder(dir.path)
    heads = []
    for (let i = 0; i < 40; i++) {
      log.record(DAY, i === 3 ? { tool: 'ü "sig" \u202e\\@1.0.0', kept: { sig: 'ed25519:AAAA' } } : {})
      if (i % 9 !== 0 && i !== 39) continue
      log.seal()
      heads.push(log.note())
    }
    log.finish()
    proofs = splitProofs(await proveRecords(dir.path, {}))
  })

  it('proves every record that check-proof proves', async () => {
    expect(proofs).to.have.length(40)
    for (const proof of proofs) {
      expect(await checkProof(proof, keys)).to.include({ valid: true })
      expect(await check(proof, keyLine)).to.include({ state: 'ok' })
    }
  })

  it('accepts no proof in which a byte was changed, as check-proof does', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...proofs),
        fc.integer({ min: 0, max: 99_999 }),
        fc.integer({ min: 1, max: 255 }),
        async (proof, place, difference) => {
          const changed = Buffer.from(proof)
          const at = place % changed.length
          changed[at] = changed[at]! ^ difference
          const text = changed.toString('utf8')
          expect((await check(text, keyLine))?.state === 'ok').to.equal((await checkProof(text, keys)).valid)
          expect((await check(text, keyLine))?.state).to.not.equal('ok')
        },
      ),
      { numRuns: propertyRuns(300) },
    )
  })

  it('checks no signature without a key, and says so', async () => {
    const checked = await check(proofs[5]!, '')
    expect(checked).to.nested.include({
      state: 'unchecked',
      'signature.state': 'unchecked',
      'signature.reason': 'no key of the log is given',
      'inclusion.state': 'ok',
      'checkpoint.state': 'unchecked',
    })
  })

  for (const [title, key, failure] of [
    ['another key', publicKeyLine(other.publicKey), /no key .* is known/],
    ['a key for earlier leaves', `${keyLine} 0 2`, /not trusted for this leaf/],
    ['a key for later leaves', `${keyLine} 9000`, /not trusted for this leaf/],
  ] as const) {
    it(`fails with ${title}`, async () => {
      const checked = await check(proofs[20]!, key)
      expect(checked?.state).to.equal('failed')
      expect(checked?.signature).to.have.property('reason').that.matches(failure)
    })
  }

  it('names both hashes of a record that was changed after it was sealed', async () => {
    const read = readProof(proofs[20]!)!
    const line = Buffer.from(read.record)
      .toString()
      .replace(/"status":"ok"/, '"status":"error"')
    const changed = proofs[20]!.replace(/^extra .*$/m, `extra ${Buffer.from(line).toString('base64')}`)
    const sealed = 'ab'.repeat(32)
    for (const [hint, reason] of [
      [undefined, 'the record does not lead to the root of its checkpoint'],
      [sealed, 'the record was changed after it was sealed'],
    ] as const) {
      const checked = await check(changed, keyLine, hint)
      expect(checked).to.nested.include({ state: 'failed', 'signature.state': 'failed' })
      expect(checked?.inclusion).to.include({ state: 'failed', reason })
      expect(checked?.inclusion)
        .to.have.property('expected')
        .that.matches(/^[0-9a-f]{64}$/)
      expect(checked?.inclusion)
        .to.have.property('found')
        .that.matches(/^[0-9a-f]{64}$/)
    }
  })

  it('checks cosignatures of the witnesses that are named, and only these', async () => {
    const proof = proofs[7]!
    const text = proof.slice(proof.indexOf('\n\n') + 2).split('\n\n')[0]!
    const now = Date.now()
    const line = cosign(`${text}\n`, witnessName, witness, now)
    const wrong = cosign(
      `${text}\n`,
      witnessName,
      { ...witness, sign: (data) => other.sign(data), publicKey: witness.publicKey } as typeof witness,
      now,
    )
    const future = cosign(`${text}\n`, witnessName, witness, now + 7_200_000)
    for (const [lines, state, own] of [
      [line, 'ok', 'ok'],
      ['', 'unchecked', 'unchecked'],
      [future, 'unchecked', 'unchecked'],
      [wrong, 'failed', 'failed'],
      [line.replace(witnessName, 'witness.example/2'), 'unchecked', 'unchecked'],
    ] as const) {
      const checked = await check(`${proof}${lines}`, `${keyLine}\n${witnessLine}`)
      expect(checked?.cosignatures[0]?.result.state).to.equal(own)
      expect(checked?.state).to.equal(state)
      expect((await check(`${proof}${lines}`, keyLine))?.state).to.equal('ok')
    }
  })

  it('names lines that are not keys by their number, never by their content', () => {
    const { logs, witnesses, wrongLines } = readVerifierKeys(
      `# comment\n${keyLine} 3 9\n\n${Buffer.alloc(32, 1).toString('base64')}\n${witnessLine}\n${keyLine} 9 3\n${witnessLine.replace('+', '+0')}`,
    )
    expect(logs).to.have.length(1)
    expect(logs[0]).to.deep.include({ keyId: signer.keyId, leaves: [3, 9] })
    expect(witnesses.map(({ name }) => name)).to.deep.equal([witnessName])
    expect(wrongLines).to.deep.equal([4, 6, 7])
  })

  it('shows that a log was only appended to since a kept head, for each pair of heads', async () => {
    for (const [at, older] of heads.entries()) {
      for (const newer of heads.slice(at)) {
        const made = await checkConsistency(dir.path, older, newer, keys)
        if (!made.consistent) throw new Error(made.reason)
        const [kept, head] = [readCheckpoint(older)!, readCheckpoint(newer)!]
        const keptHead = { ...kept, root: older.split('\n')[2]! }
        expect(continuesHead(keptHead, head, made.proof)).to.include({ state: 'ok' })
        const otherRoot = { ...keptHead, root: Buffer.alloc(32, 1).toString('base64') }
        expect(continuesHead(otherRoot, head, made.proof)).to.include({ state: 'failed' })
        const forged = readCheckpoint(noteOf({ ...head, root: EMPTY_ROOT }, [signer]))!
        expect(continuesHead(keptHead, forged, made.proof)).to.include({ state: 'failed' })
        for (const path of [made.proof.slice(1), [...made.proof, made.proof[0] ?? keptHead.root]]) {
          if (path.length === made.proof.length) continue
          expect(continuesHead(keptHead, head, path)).to.include({ state: 'failed' })
        }
      }
    }
    const [first, last] = [heads[0]!, heads.at(-1)!]
    const newest = { ...readCheckpoint(last)!, root: last.split('\n')[2]! }
    expect(continuesHead(newest, readCheckpoint(first)!, [])).to.include({ state: 'failed' })
    expect(continuesHead({ ...newest, origin: 'a.b' }, readCheckpoint(last)!, [])).to.include({
      state: 'failed',
      expected: 'a.b',
    })
  })
})
