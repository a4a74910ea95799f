import { verifierFromPublicKey } from '@svc/plugin-audit/log'
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import fc from 'fast-check'
import { temporaryDir } from '../../../../support/temporary-dir.js'
import { sealedLog } from '../seal/sealed-log.js'
import { appenderIn, codeOf, DAY, envelope, linesOf, recordsOf, signer, spansOf } from './records.js'

/** A signer whose key lives elsewhere: the test decides when each signature is given or refused. */
function remoteSigner() {
  const asked: { give(): void; refuse(): void }[] = []
  return {
    keyId: signer.keyId,
    publicKey: signer.publicKey,
    sign: () => expect.fail('the key is not here'),
    verify: (data: Uint8Array, sig: Uint8Array) => signer.verify(data, sig),
    signAsync: (data: Uint8Array) =>
      new Promise<Uint8Array>((resolve, reject) => {
        asked.push({
          give: () => resolve(signer.sign(data)),
          refuse: () => reject(new Error('the key service is down')),
        })
      }),
    asked,
  }
}

describe('a log with an asynchronous signer', () => {
  const dir = temporaryDir()
  const config = { checkpoints: false } as const

  it('has the records in the order of their numbers, in whatever order their signatures arrive', async () => {
    await fc.assert(
      fc.asyncProperty(fc.shuffledSubarray([0, 1, 2, 3, 4, 5, 6, 7], { minLength: 8 }), async (order) => {
        const remote = remoteSigner()
        const appender = appenderIn(dir.path, { signer: remote, config })
        const before = spansOf(dir.path)
        const records = order.map(() => envelope())
        const appended = records.map((record) => appender.append(record))
        for (const i of order) remote.asked[i]?.give()
        await Promise.all(appended)
        await appender.close()
        expect(spansOf(dir.path)).to.deep.equal([...before, ...records.map(({ span_id }) => span_id)])
      }),
      { numRuns: 20 },
    )
  })

  it('keeps the order of a caller that awaits each record', async () => {
    const appender = appenderIn(dir.path, {
      signer: { ...remoteSigner(), signAsync: async (data: Uint8Array) => signer.sign(data) },
      config,
    })
    const records = Array.from({ length: 30 }, () => envelope())
    for (const record of records) await appender.append(record)
    await appender.close()
    expect(spansOf(dir.path)).to.deep.equal(records.map(({ span_id }) => span_id))
  })

  it('asks for signatures in parallel, and writes no record before the ones before it', async () => {
    const remote = remoteSigner()
    const appender = appenderIn(dir.path, { signer: remote, config })
    const slow = appender.append(envelope())
    const quick = appender.append(envelope())
    expect(remote.asked).to.have.length(2)
    remote.asked[1]?.give()
    const onTheNextDay = appender.append(envelope({ ts: '2026-11-22T00:00:00Z' }))
    remote.asked[2]?.give()
    await onTheNextDay
    expect(recordsOf(dir.path)).to.have.length(0)
    remote.asked[0]?.give()
    await Promise.all([slow, quick])
    await appender.close()
    expect(recordsOf(dir.path)).to.have.length(2)
  })

  it('names the number of a refused signature in the next line, which is signed again', async () => {
    const remote = remoteSigner()
    const appender = appenderIn(dir.path, { signer: remote })
    const ready = appender.ready()
    const responding = setInterval(() => remote.asked.shift()?.give(), 1)
    await ready
    clearInterval(responding)
    const [lost, kept, later] = [0, 1, 2].map(() => appender.append(envelope()))
    const [first, second, third] = remote.asked.splice(0)
    second?.give()
    third?.give()
    first?.refuse()
    expect(await codeOf(lost!)).to.equal('signer_failed')
    // It was signed without the number that it has to name.
    remote.asked.shift()?.give()
    await Promise.all([kept, later])
    const written = linesOf(dir.path, `audit-${DAY}.ndjson`).map((line) => JSON.parse(line))
    expect(written.map(({ seq, lost: named }) => [seq.split(':')[1], named])).to.deep.equal([
      ['1', [[0, 0]]],
      ['2', undefined],
    ])
    const closed = appender.close()
    const closing = setInterval(() => remote.asked.shift()?.give(), 1)
    await closed
    clearInterval(closing)
    const report = await verifyLog(dir.path, { keys: [verifierFromPublicKey(signer.publicKey)] })
    expect(report.failures).to.deep.equal([])
  })

  it('counts a signature that never comes as refused', async () => {
    const remote = remoteSigner()
    const limits = { signatureMs: 5 }
    await using appender = appenderIn(dir.path, { signer: remote, config, limits })
    const error = await appender.append(envelope()).catch((cause: unknown) => cause)
    expect(error).to.include({ code: 'signer_failed' })
    expect(appender.status()).to.include({ failed: 1, pendingBytes: 0 })
  })

  for (const [what, matches] of [
    ['a journal line', (text: string) => text.includes('"kind":"seal"')],
    ['a checkpoint', (text: string) => !text.startsWith('{')],
  ] as const)
    it(`seals again after a signature of ${what} that never came`, async () => {
      let isSilent = false
      const signAsync = async (data: Uint8Array) => {
        if (isSilent && matches(Buffer.from(data).toString())) await new Promise(() => undefined)
        return signer.sign(data)
      }
      const errors: string[] = []
      const appender = appenderIn(dir.path, {
        signer: { ...remoteSigner(), signAsync },
        limits: { signatureMs: 50 },
        onAsyncError: (error) => errors.push(String(Object(error).code)),
      })
      await appender.append(envelope())
      isSilent = true
      await appender.seal()
      expect(errors).to.deep.equal(['signer_failed'])
      expect(appender.status().sealing).to.have.nested.property('error.code', 'signer_failed')
      isSilent = false
      await appender.seal()
      expect(appender.status().sealing).not.to.have.property('error')
      await appender.close()
      expect(sealedLog(dir.path).sealed.get(DAY)).to.equal(1)
    })

  it('rejects only the record whose signature is refused', async () => {
    const remote = remoteSigner()
    await using appender = appenderIn(dir.path, { signer: remote, config })
    const [lost, kept] = [appender.append(envelope()), appender.append(envelope())]
    remote.asked[0]?.refuse()
    expect(await codeOf(lost)).to.equal('signer_failed')
    remote.asked[1]?.give()
    await kept
    expect(recordsOf(dir.path)).to.have.length(1)
    expect(appender.status()).to.include({ appended: 1, failed: 1, pendingBytes: 0 })
  })

  it('is not writable from a refused signature to the next valid one', async () => {
    const remote = remoteSigner()
    await using appender = appenderIn(dir.path, { signer: remote, config })
    const lost = appender.append(envelope())
    remote.asked[0]?.refuse()
    await codeOf(lost)
    expect(appender.status()).to.have.nested.property('error.code', 'signer_failed')
    const kept = appender.append(envelope())
    remote.asked[1]?.give()
    await kept
    expect(appender.status()).to.include({ writable: true })
  })

  it('limits pending bytes, including records being signed', async () => {
    const remote = remoteSigner()
    const appender = appenderIn(dir.path, { signer: remote, config, limits: { maxPendingBytes: 8_000 } })
    const accepted: Promise<void>[] = []
    let refused: Promise<void> | undefined
    while (refused === undefined) {
      const asked = remote.asked.length
      const appended = appender.append(envelope())
      if (remote.asked.length > asked) accepted.push(appended)
      else refused = appended
    }
    expect(await codeOf(refused)).to.equal('backpressure')
    expect(appender.status().pendingBytes).to.be.within(1, 8_000)
    for (const { give } of remote.asked) give()
    await Promise.all(accepted)
    expect(appender.status().pendingBytes).to.equal(0)
    const later = appender.append(envelope())
    remote.asked.at(-1)?.give()
    await later
    await appender.close()
    expect(recordsOf(dir.path)).to.have.length(accepted.length + 1)
  })

  for (const [what, response] of [
    ['a short signature', new Uint8Array(63)],
    ['nothing', undefined as unknown as Uint8Array],
  ] as const)
    it(`rejects ${what}, and writes the records after it`, async () => {
      let broken = true
      const signAsync = async (data: Uint8Array) => (broken ? response : signer.sign(data))
      const appender = appenderIn(dir.path, { signer: { ...remoteSigner(), signAsync }, config })
      expect(await codeOf(appender.append(envelope()))).to.equal('signer_failed')
      broken = false
      await appender.append(envelope())
      await appender.close()
      expect(recordsOf(dir.path)).to.have.length(1)
    })
})
