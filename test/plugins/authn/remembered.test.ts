import { expect } from 'chai'
import { generateKeyPair } from 'jose'
import sinon from 'sinon'
import { why } from '../../support/stage-rig.js'
import { AuthnRig, present } from './rig.js'

describe('authn: cached tokens', () => {
  let rig: AuthnRig
  let verify: sinon.SinonSpy

  beforeEach(async () => {
    rig = await AuthnRig.start()
    verify = sinon.spy(crypto.subtle, 'verify')
  })

  afterEach(async () => {
    verify.restore()
    await rig[Symbol.asyncDispose]()
  })

  it('are not verified again', async () => {
    const stage = await rig.stage()
    const token = await rig.issuer.sign()
    const first = await present(stage, token)
    const second = await present(stage, token)
    expect(second.identity).to.equal(first.identity).and.not.equal(undefined)
    expect(verify.callCount).to.equal(1)
  })

  describe('that were refused', () => {
    it('for their claims are not verified again', async () => {
      const stage = await rig.stage()
      const wrong = [
        await rig.issuer.sign({ aud: 'other' }),
        await rig.issuer.sign({ org: ['acme'] }),
        await rig.issuer.sign({}, { expiresIn: -60 }),
      ]
      for (const [i, token] of wrong.entries()) {
        const first = why(await present(stage, token))
        expect(why(await present(stage, token))).to.equal(first)
        expect(verify.callCount).to.equal(i + 1)
      }
    })

    it('are verified again after a minute', async () => {
      const stage = await rig.stage()
      const token = await rig.issuer.sign({ aud: 'other' })
      await present(stage, token)
      rig.clock.advance(59_999)
      await present(stage, token)
      expect(verify.callCount).to.equal(1)
      rig.clock.advance(1)
      await present(stage, token)
      expect(verify.callCount).to.equal(2)
    })

    it('for reasons that time or a new key can change are verified each time', async () => {
      const stage = await rig.stage()
      const early = await rig.issuer.sign({}, { notBefore: 30 })
      expect(why(await present(stage, early))).to.match(/not valid before/)
      rig.clock.advance(30_000)
      expect((await present(stage, early)).identity).to.include({ tenant: 'acme' })
      const { privateKey } = await generateKeyPair('ES256')
      const forged = await rig.issuer.sign({}, { key: privateKey })
      const before = verify.callCount
      for (let n = 0; n < 2; n++) expect(why(await present(stage, forged))).to.match(/does not verify/)
      expect(verify.callCount).to.equal(before + 2)
    })

    it('are dropped when the policy changes', async () => {
      const token = await rig.issuer.sign({ aud: 'other' })
      expect(why(await present(await rig.stage(), token))).to.match(/for the audience/)
      expect((await present(await rig.stage({ audience: 'other' }), token)).identity?.tenant).to.equal('acme')
    })

    it('evict no valid one', async () => {
      const stage = await rig.stage({ tokenCacheSize: 2 })
      const good = await rig.issuer.sign()
      await present(stage, good)
      for (let n = 0; n < 5; n++) await present(stage, await rig.issuer.sign({ aud: `other-${n}` }))
      const before = verify.callCount
      await present(stage, good)
      expect(verify.callCount).to.equal(before)
    })
  })

  it('are not verified again while the issuer is down', async () => {
    const stage = await rig.stage({ tokenCacheSec: 86_400 })
    const token = await rig.issuer.sign({}, { expiresIn: 86_400 })
    const first = await present(stage, token)
    await rig.issuer.down()
    rig.clock.advance(1_000_000)
    const later = await present(stage, token)
    expect(later.identity).to.equal(first.identity).and.not.equal(undefined)
    expect(verify.callCount).to.equal(1)
  })

  it('are dropped with their key also when the set was fetched in between', async () => {
    const stage = await rig.stage()
    const token = await rig.issuer.sign({}, { expiresIn: 86_400 })
    await present(stage, token)
    await present(stage, await rig.issuer.sign({}, { header: { kid: 'made-up' } }))
    expect(rig.issuer.requests).to.equal(2)
    await rig.issuer.rotate()
    rig.clock.advance(30_000)
    await present(stage, await rig.issuer.sign())
    expect(rig.issuer.requests).to.equal(3)
    expect(why(await present(stage, token))).to.match(/names the key "key-1", which the issuer does not have/)
  })

  it('do not make a forged one cost two verifications', async () => {
    const stage = await rig.stage()
    const { privateKey } = await generateKeyPair('ES256')
    expect(why(await present(stage, await rig.issuer.sign({}, { key: privateKey })))).to.match(
      /does not verify/,
    )
    expect(verify.callCount).to.equal(1)
  })

  it('end with their exp', async () => {
    const stage = await rig.stage({ clockToleranceSec: 0 })
    const token = await rig.issuer.sign({}, { expiresIn: 10 })
    await present(stage, token)
    rig.clock.advance(9_999)
    expect((await present(stage, token)).identity?.tenant).to.equal('acme')
    expect(verify.callCount).to.equal(1)
    rig.clock.advance(1)
    expect(why(await present(stage, token))).to.equal(
      'UNAUTHENTICATED: The token expired at 2026-01-01T00:00:10.000Z.',
    )
  })

  it('are not accepted before their nbf when the clock is set back', async () => {
    const stage = await rig.stage({ clockToleranceSec: 0 })
    const token = await rig.issuer.sign({}, { notBefore: 0 })
    await present(stage, token)
    rig.clock.set(rig.clock.now() - 1000)
    expect(why(await present(stage, token))).to.match(/not valid before 2026-01-01T00:00:00.000Z/)
  })

  it('are verified again after tokenCacheSec', async () => {
    const stage = await rig.stage({ tokenCacheSec: 60 })
    const token = await rig.issuer.sign()
    await present(stage, token)
    rig.clock.advance(59_999)
    await present(stage, token)
    expect(verify.callCount).to.equal(1)
    rig.clock.advance(1)
    await present(stage, token)
    expect(verify.callCount).to.equal(2)
  })

  it('are at most tokenCacheSize; the one in use stays', async () => {
    const stage = await rig.stage({ tokenCacheSize: 10 })
    const used = await rig.issuer.sign({ sub: 'used' })
    const once = await rig.issuer.sign({ sub: 'once' })
    await present(stage, once)
    for (let n = 0; n < 20; n++) {
      await present(stage, used)
      await present(stage, await rig.issuer.sign({ sub: `other-${n}` }))
    }
    expect(verify.callCount).to.equal(22)
    await present(stage, once)
    expect(verify.callCount).to.equal(23)
  })

  it('are not kept with tokenCacheSize 0', async () => {
    const stage = await rig.stage({ tokenCacheSize: 0 })
    const token = await rig.issuer.sign()
    await present(stage, token)
    await present(stage, token)
    expect(verify.callCount).to.equal(2)
  })

  it('are dropped when the policy reads their claims differently', async () => {
    const token = await rig.issuer.sign({ workspace: 'initech' })
    expect((await present(await rig.stage(), token)).identity?.tenant).to.equal('acme')
    expect((await present(await rig.stage({ tenantClaim: 'workspace' }), token)).identity?.tenant).to.equal(
      'initech',
    )
    expect(rig.issuer.requests).to.equal(1)
  })
})
