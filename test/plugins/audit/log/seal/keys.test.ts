import { AuditError, LocalDevSigner, revokeKey, rotateKey } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { appenderIn, codeOf, DAY, envelope, signer } from '../writer/records.js'
import { append } from './rig.js'
import { journalOf, sealedLog } from './sealed-log.js'

const next = LocalDevSigner.fromSeed(new Uint8Array(32).fill(9))
const third = LocalDevSigner.fromSeed(new Uint8Array(32).fill(10))

describe('the keys of a log over time', () => {
  const dir = temporaryDir()

  async function written(by: Partial<Parameters<typeof appenderIn>[1]> = {}, count = 2): Promise<void> {
    await using appender = appenderIn(dir.path, by)
    await append(appender, count)
  }

  it('refuse a writer with another key', async () => {
    await written()
    const appender = appenderIn(dir.path, { signer: next })
    expect(await codeOf(appender.append(envelope()))).to.equal('key_refused')
    await appender.close()
    expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(2)
  })

  it('accept a key that the former key introduces, and both sign checkpoints while they overlap', async () => {
    await written()
    await written({ signer: next, retiringSigner: signer })
    const { journal, checkpoints, sealed } = sealedLog(dir.path)
    expect(journal.map(({ kind, key_id: by }) => [kind, by === next.keyId ? 'new' : 'old'])).to.deep.equal([
      ['genesis', 'old'],
      ['seal', 'old'],
      ['key', 'old'],
      ['seal', 'new'],
    ])
    expect(checkpoints.map(({ signatures }) => signatures)).to.deep.equal([1, 1, 1, 2])
    expect(sealed.get(DAY)).to.equal(4)
    await written({ signer: next })
    expect(sealedLog(dir.path).checkpoints.at(-1)?.signatures).to.equal(1)
  })

  it('are retired by a line of the next key, after which they cannot open the log', async () => {
    await written()
    await rotateKey(dir.path, { from: signer, to: next, retire: true })
    await written({ signer: next })
    expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(4)
    const appender = appenderIn(dir.path)
    expect(await codeOf(appender.ready())).to.equal('key_refused')
    await appender.close()
    await rotateKey(dir.path, { from: next, to: third })
    await rotateKey(dir.path, { from: next, to: third })
    await rotateKey(dir.path, { from: next, to: third, retire: true })
    await written({ signer: third })
    expect(journalOf(dir.path).filter(({ kind }) => kind === 'key')).to.have.length(3)
    sealedLog(dir.path)
  })

  it('change while a writer is open, and the writer continues', async () => {
    const errors: Error[] = []
    const appender = appenderIn(dir.path, { onAsyncError: (error) => errors.push(error) })
    await append(appender, 1)
    await appender.seal()
    await append(appender, 1)
    await rotateKey(dir.path, { from: signer, to: next })
    await append(appender, 1)
    await appender.close()
    expect(errors).to.deep.equal([])
    const { journal, sealed } = sealedLog(dir.path)
    expect(journal.map(({ kind }) => kind)).to.deep.equal(['genesis', 'seal', 'seal', 'key', 'seal', 'seal'])
    expect(sealed.get(DAY)).to.equal(3)
  })

  it('are revoked from a leaf on, from an instant on, or from now on', async () => {
    await written()
    await rotateKey(dir.path, { from: signer, to: next })
    await written({ signer: next })
    const { size, journal } = sealedLog(dir.path)
    const refused = await codeOf(revokeKey(dir.path, next, { keyId: signer.keyId, leaf: 2 }))
    expect(refused).to.equal('key_refused')
    // The line that introduced the signing key stands before.
    const introduced = journal.find(({ kind }) => kind === 'key')!
    expect(await revokeKey(dir.path, next, { keyId: signer.keyId, leaf: introduced['leaf'] + 1 })).to.equal(
      introduced['leaf'] + 1,
    )
    await written({ signer: next })
    expect(journalOf(dir.path).find(({ kind }) => kind === 'revoke')).to.deep.include({
      revoked: signer.keyId,
      leaf: size,
    })
    await rotateKey(dir.path, { from: next, to: third })
    const since = Date.parse(journalOf(dir.path).at(-1)!['at']) + 1
    const { size: now } = sealedLog(dir.path)
    expect(await revokeKey(dir.path, third, { keyId: next.keyId, since })).to.equal(now)
    await written({ signer: third })
    const error = await revokeKey(dir.path, third, { keyId: 'ed25519:none' }).catch((e: unknown) => e)
    expect(error).to.be.instanceOf(AuditError)
  })
})
