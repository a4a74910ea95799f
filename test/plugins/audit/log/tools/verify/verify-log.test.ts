import { createPrivateKey } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { LocalDevSigner, verifierFromPublicKey } from '@svc/plugin-audit/log'
import { readKeys, type VerifyReport, verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import fc from 'fast-check'
import { temporaryDir } from '../../../../../support/temporary-dir.js'
import { appenderIn, DAY, envelope, signer } from '../../writer/records.js'

const other = LocalDevSigner.fromSeed(new Uint8Array(32).fill(9))
const file = `audit-${DAY}.ndjson`
const keys = [verifierFromPublicKey(signer.publicKey)]

describe('verifyLog', () => {
  const dir = temporaryDir()
  const path = () => join(dir.path, file)

  async function logOf(count: number, changes = {}): Promise<void> {
    await using appender = appenderIn(dir.path)
    await Promise.all(Array.from({ length: count }, () => appender.append(envelope(changes))))
  }

  function edit(change: (text: string) => string): void {
    writeFileSync(path(), change(readFileSync(path(), 'utf8')))
  }

  function found(report: VerifyReport): string[] {
    return report.failures.map((failure) => `${failure.file}:${failure.line}: ${failure.kind}`)
  }

  it('finds an untouched log intact', async () => {
    await logOf(20)
    const report = await verifyLog(dir.path, { keys })
    expect(report).to.deep.include({
      verdict: 'intact',
      records: 20,
      verified: 20,
      files: 1,
      selfVouched: false,
    })
  })

  it('reports that a log verified with its own public-keys vouches for itself', async () => {
    await logOf(1)
    expect(await verifyLog(dir.path)).to.include({ verdict: 'intact', selfVouched: true })
  })

  it('finds any single changed byte, with its line', async () => {
    await logOf(4, { agentVariables: { text: 'ü "quoted" \\ 12.50' }, key_id: signer.keyId })
    const bytes = readFileSync(path())
    await fc.assert(
      fc.asyncProperty(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }), async (at, difference) => {
        const changed = Buffer.from(bytes)
        changed[at] = (changed[at] ?? 0) ^ difference
        writeFileSync(path(), changed)
        const line = bytes.subarray(0, at).filter((byte) => byte === 0x0a).length + 1
        const report = await verifyLog(dir.path, { keys })
        expect(report.verdict).to.equal('not_intact')
        expect(report.failures[0]?.line).to.equal(line)
      }),
      { numRuns: 150 },
    )
  })

  it('reports a changed value: bad_signature', async () => {
    await logOf(3)
    edit((text) =>
      text
        .split('\n')
        .map((line, i) => (i === 1 ? line.replace('acme', 'evil') : line))
        .join('\n'),
    )
    expect(found(await verifyLog(dir.path, { keys }))).to.deep.equal([`${file}:2: bad_signature`])
  })

  it('reports another form of the same record: not_canonical', async () => {
    await logOf(2)
    edit((text) => text.replace('"latency_ms":1.5', '"latency_ms":1.50'))
    expect(found(await verifyLog(dir.path, { keys }))).to.deep.equal([`${file}:1: not_canonical`])
  })

  it('reports a duplicate member, which a parser would hide: not_canonical', async () => {
    await logOf(1)
    edit((text) => text.replace('"tenant":"acme"', '"tenant":"evil","tenant":"acme"'))
    expect(found(await verifyLog(dir.path, { keys }))).to.deep.equal([`${file}:1: not_canonical`])
  })

  it('reports invalid JSON, invalid UTF-8 and a missing signature', async () => {
    await logOf(1)
    const line = readFileSync(path())
    const lines = ['garbage\n', Buffer.from([0x7b, 0xff, 0x7d, 0x0a]), '\n', '{"ts":"x"}\n', line]
    writeFileSync(path(), Buffer.concat(lines.map((part) => Buffer.from(part))))
    expect(found(await verifyLog(dir.path, { keys }))).to.deep.equal([
      `${file}:1: not_json`,
      `${file}:2: not_json`,
      `${file}:3: not_json`,
      `${file}:4: bad_signature`,
    ])
  })

  for (const [what, other] of [
    ['with other padding', '=*"'],
    ['without its padding', '"'],
    ['with more than a signature', 'AAAA=="'],
  ] as const)
    it(`reports a signature ${what}, even directly after the valid one: bad_signature`, async () => {
      await logOf(1, { key_id: signer.keyId })
      edit((text) => text + text.replace('=="', other))
      expect(found(await verifyLog(dir.path, { keys }))).to.include(`${file}:2: bad_signature`)
    })

  it('reports a record in the file of another day: wrong_day', async () => {
    await logOf(1)
    writeFileSync(join(dir.path, 'audit-2026-11-20.ndjson'), readFileSync(path()))
    expect(found(await verifyLog(dir.path, { keys }))).to.deep.equal(['audit-2026-11-20.ndjson:1: wrong_day'])
  })

  it('reports a record of an unknown key: unknown_key', async () => {
    await logOf(1, { key_id: other.keyId })
    const report = await verifyLog(dir.path, { keys })
    expect(Object.keys(report.failureCounts)).to.deep.equal(['unknown_key'])
  })

  it('does not judge a log by keys that are none of its own', async () => {
    await logOf(1, { key_id: signer.keyId })
    const report = await verifyLog(dir.path, { keys: [verifierFromPublicKey(other.publicKey)] })
    expect(report).to.include({ verdict: 'cannot_be_judged', records: 0 })
    expect(report.reason).to.include('none of the given keys is one of this log')
  })

  it('tries every key for a record without a key id', async () => {
    await logOf(1)
    expect(
      (await verifyLog(dir.path, { keys: [verifierFromPublicKey(other.publicKey), ...keys] })).verdict,
    ).to.equal('intact')
  })

  it('reports a torn line without a failure', async () => {
    await logOf(2)
    edit((text) => `${text}{"ts":"2026-11-21T10`)
    const report = await verifyLog(dir.path, { keys })
    expect(report).to.include({ verdict: 'intact', records: 2 })
    expect(report.tornTails).to.have.length(1)
    expect(report.tornTails[0]).to.include({ file, line: 3, kind: 'torn_tail' })
  })

  it('does not mistake a changed last newline for a torn line', async () => {
    await logOf(2)
    edit((text) => `${text.slice(0, -1)} `)
    expect(found(await verifyLog(dir.path, { keys }))).to.deep.equal([`${file}:2: not_canonical`])
  })

  for (const [title, prepare] of [
    ['no directory', (path: string) => join(path, 'none')],
    ['no daily log', (path: string) => path],
    [
      'no keys',
      (path: string) => {
        writeFileSync(join(path, file), '{}\n')
        return path
      },
    ],
    [
      'no records',
      (path: string) => {
        writeFileSync(join(path, file), '')
        writeFileSync(
          join(path, 'public-keys'),
          `${'ed25519:'}${Buffer.from(signer.publicKey).toString('base64')}\n`,
        )
        return path
      },
    ],
    [
      'a file that cannot be read',
      (path: string) => {
        mkdirSync(join(path, file))
        writeFileSync(
          join(path, 'public-keys'),
          `${'ed25519:'}${Buffer.from(signer.publicKey).toString('base64')}\n`,
        )
        return path
      },
    ],
  ] as const) {
    it(`cannot judge ${title}, and reports why`, async () => {
      const report = await verifyLog(prepare(dir.path))
      expect(report.verdict).to.equal('cannot_be_judged')
      expect(report.reason).to.be.a('string').and.not.equal('')
    })
  }

  it('accepts a log without a journal only with allowUnsealed, and never if records name a log', async () => {
    const appender = appenderIn(dir.path, { config: { checkpoints: false } })
    for (let i = 0; i < 3; i++) await appender.append(envelope())
    await appender.close()
    const unjudged = await verifyLog(dir.path, { keys })
    expect(unjudged).to.include({ verdict: 'cannot_be_judged' })
    expect(unjudged.reason).to.include('the log has no journal')
    const accepted = await verifyLog(dir.path, { keys, allowUnsealed: true })
    expect(accepted).to.include({ verdict: 'intact', verified: 3, sealed: 0, unsealed: 3 })
    edit((text) => text.replace('acme', 'evil'))
    expect(found(await verifyLog(dir.path, { keys, allowUnsealed: true }))).to.deep.equal([
      `${file}:1: bad_signature`,
    ])
    const sibling = join(dir.path, 'sibling')
    mkdirSync(sibling)
    const sealed = appenderIn(sibling)
    await sealed.append(envelope())
    await sealed.close()
    edit((text) => text.replace('evil', 'acme') + readFileSync(join(sibling, file), 'utf8'))
    expect(found(await verifyLog(dir.path, { keys, allowUnsealed: true }))).to.deep.equal([
      'audit.journal:0: missing_file',
    ])
  })

  it('keeps the first thousand failures and counts all', async () => {
    writeFileSync(path(), 'x\n'.repeat(1_500))
    let told = 0
    const report = await verifyLog(dir.path, { keys, allowUnsealed: true, onFailure: () => told++ })
    expect([report.failures.length, report.failureCounts.not_json, told]).to.deep.equal([1_000, 1_500, 1_500])
  })

  it('reads lines longer than its chunks', async () => {
    await logOf(2, { agentVariables: { text: 'x'.repeat(700_000) } })
    expect((await verifyLog(dir.path, { keys })).verified).to.equal(2)
  })
})

describe('readKeys', () => {
  const dir = temporaryDir()

  function fileWith(text: string): string {
    const path = join(dir.path, 'keys')
    writeFileSync(path, text, { mode: 0o600 })
    return path
  }

  const line = `ed25519:${Buffer.from(signer.publicKey).toString('base64')}`

  it('reads public key lines, ignoring blank lines and comments', async () => {
    const read = await readKeys(fileWith(`# of the gateway\n\n${line}\n`))
    expect(read.map((key) => key.keyId)).to.deep.equal([signer.keyId])
  })

  it('uses the public half of a signing key file', async () => {
    const secret = Buffer.concat([Buffer.alloc(32, 7), signer.publicKey])
    const key = {
      kty: 'OKP',
      crv: 'Ed25519',
      d: secret.toString('base64url', 0, 32),
      x: secret.toString('base64url', 32),
    }
    const pem = createPrivateKey({ key, format: 'jwk' }).export({ format: 'pem', type: 'pkcs8' })
    const read = await readKeys(fileWith(String(pem)))
    expect(read.map((key) => key.keyId)).to.deep.equal([signer.keyId])
  })

  it('reports the line that is not a key', async () => {
    const error = await readKeys(fileWith(`${line}\ned25519:AAAA\n`)).then(null, (reason) => reason)
    expect(error.message).to.include(':2:')
  })
})
