import { Resources } from '@svc/core'
import { expect } from 'chai'
import { generateKeyPair } from 'jose'
import { ofEachTest } from '../../support/parts.js'
import { refusal, why } from '../../support/stage-rig.js'
import { AuthnRig, type HttpResponse, present, sendWith } from './rig.js'

const fresh = { maxAgeSec: 600, staleSec: 3600, cooldownSec: 30, timeoutMs: 5000 }

describe("authn: the issuer's keys", () => {
  const rig = ofEachTest(() => AuthnRig.start())

  async function user(response: Promise<HttpResponse>): Promise<string | undefined> {
    return (await response).identity?.user
  }

  function warnings(): string[] {
    return rig.log.lines.filter(({ level }) => level === 'warn').map(({ message }) => message)
  }

  it('are fetched once for many calls', async () => {
    const stage = await rig.stage()
    const tokens = await Promise.all(['a', 'b', 'c', 'd'].map((sub) => rig.issuer.sign({ sub })))
    for (const token of [...tokens, ...tokens]) await present(stage, token)
    await Promise.all(tokens.map((token) => present(stage, token)))
    expect(rig.issuer.requests).to.equal(1)
  })

  it('are refreshed in the background in the second half of their age', async () => {
    const stage = await rig.stage({ jwks: fresh })
    const token = await rig.issuer.sign({}, { expiresIn: 86_400 })
    await present(stage, token)
    rig.clock.advance(299_000)
    await present(stage, token)
    expect(rig.issuer.requests).to.equal(1)
    rig.clock.advance(1_000)
    await present(stage, token)
    await rig.issuer.asked(2)
  })

  describe('after a rotation', () => {
    it('are fetched at once when a token names a new key', async () => {
      const stage = await rig.stage()
      await present(stage, await rig.issuer.sign())
      await rig.issuer.rotate({ keep: true })
      expect(await user(present(stage, await rig.issuer.sign()))).to.equal('ada@example.com')
      expect(rig.issuer.requests).to.equal(2)
    })

    it('are fetched at once when a key was replaced under its name', async () => {
      const stage = await rig.stage()
      await present(stage, await rig.issuer.sign())
      await rig.issuer.rotate()
      rig.issuer.keys = rig.issuer.keys.map((jwk) => ({ ...jwk, kid: 'key-1' }))
      const token = await rig.issuer.sign({}, { header: { kid: 'key-1' } })
      expect(await user(present(stage, token))).to.equal('ada@example.com')
    })

    it('are fetched at once when tokens name no key', async () => {
      const stage = await rig.stage()
      const nameless = () => rig.issuer.sign({}, { header: { kid: undefined } })
      await present(stage, await nameless())
      await rig.issuer.rotate()
      expect(await user(present(stage, await nameless()))).to.equal('ada@example.com')
    })

    it('keep serving the tokens of a key that is still published', async () => {
      const stage = await rig.stage()
      const old = await rig.issuer.sign()
      await present(stage, old)
      await rig.issuer.rotate({ keep: true })
      await present(stage, await rig.issuer.sign())
      expect(await user(present(stage, old))).to.equal('ada@example.com')
    })

    it('drop the cached tokens of a withdrawn key', async () => {
      const stage = await rig.stage()
      const old = await rig.issuer.sign()
      expect(await user(present(stage, old))).to.equal('ada@example.com')
      await rig.issuer.rotate()
      await present(stage, await rig.issuer.sign())
      expect(why(await present(stage, old))).to.equal(
        'UNAUTHENTICATED: The token names the key "key-1", which the issuer does not have for ES256.',
      )
    })
  })

  describe('under a flood of unknown key names', () => {
    it('are fetched once per cooldown', async () => {
      const stage = await rig.stage({ jwks: fresh })
      await present(stage, await rig.issuer.sign())
      const flood = async () => {
        const tokens = await Promise.all(
          Array.from({ length: 50 }, (_, at) => rig.issuer.sign({}, { header: { kid: `made-up-${at}` } })),
        )
        const responses = await Promise.all(tokens.map((token) => present(stage, token)))
        for (const response of responses) expect(refusal(response).code).to.equal('UNAUTHENTICATED')
      }
      await flood()
      await flood()
      expect(rig.issuer.requests).to.equal(2)
      rig.clock.advance(29_999)
      await flood()
      expect(rig.issuer.requests).to.equal(2)
      rig.clock.advance(1)
      await flood()
      expect(rig.issuer.requests).to.equal(3)
    })

    it('still verify valid tokens, and accept a new key after the cooldown', async () => {
      const stage = await rig.stage({ jwks: fresh })
      const good = await rig.issuer.sign()
      await present(stage, await rig.issuer.sign({}, { header: { kid: 'made-up' } }))
      await rig.issuer.rotate({ keep: true })
      const rotated = await rig.issuer.sign()
      expect(refusal(await present(stage, rotated)).code).to.equal('UNAUTHENTICATED')
      expect(await user(present(stage, good))).to.equal('ada@example.com')
      rig.clock.advance(30_000)
      expect(await user(present(stage, rotated))).to.equal('ada@example.com')
    })

    it('are not fetched for forged signatures either', async () => {
      const stage = await rig.stage()
      const { privateKey } = await generateKeyPair('ES256')
      for (let n = 0; n < 10; n++) await present(stage, await rig.issuer.sign({ n }, { key: privateKey }))
      expect(rig.issuer.requests).to.equal(2)
    })
  })

  describe('while the issuer is down', () => {
    it('cause 503 with Retry-After, as no token can be checked', async () => {
      await rig.issuer.down()
      const stage = await rig.stage()
      const response = refusal(await present(stage, await rig.issuer.sign()))
      expect(response).to.deep.include({
        kind: 'failed',
        code: 'STORE_UNAVAILABLE',
        message:
          "The token cannot be checked now, because the issuer's keys cannot be fetched. Try again later.",
        headers: { 'retry-after': '1' },
      })
      expect(stage.health?.()?.reason).to.match(
        /^the key set http:\/\/127\.0\.0\.1:\d+\/jwks cannot be fetched: .*ECONNREFUSED/,
      )
      expect(warnings()).to.deep.equal(['the key set could not be fetched'])
    })

    it('are not fetched to refuse a malformed token', async () => {
      let asked = 0
      rig.useSource({
        load: () => {
          asked++
          return Promise.reject(new Error('down'))
        },
      })
      const stage = await rig.stage()
      const atStart = asked
      rig.clock.advance(3_600_000)
      const none = Buffer.from('{"alg":"none"}').toString('base64url')
      for (const token of ['x', 'a.b.c', `${none}.e30.x`, 'a.b.c.d.e', 'x'.repeat(17_000)]) {
        expect(refusal(await present(stage, token)).code, token).to.equal('UNAUTHENTICATED')
      }
      expect(asked).to.equal(atStart)
    })

    it('are fetched with exponential backoff, up to the cooldown', async () => {
      let asked = 0
      rig.useSource({
        load: () => {
          asked++
          return Promise.reject(new Error('down'))
        },
      })
      const stage = await rig.stage({ jwks: { ...fresh, cooldownSec: 5 } })
      const token = await rig.issuer.sign()
      const pauses: string[] = []
      for (let n = 1; n <= 5; n++) {
        const { headers } = refusal(await present(stage, token))
        const pause = String(headers?.['retry-after'])
        pauses.push(pause)
        await present(stage, token)
        expect(asked).to.equal(n)
        rig.clock.advance(Number(pause) * 1000)
      }
      expect(pauses).to.deep.equal(['1', '2', '4', '5', '5'])
    })

    it('are available again when it is back', async () => {
      await rig.issuer.down()
      const stage = await rig.stage()
      const token = await rig.issuer.sign()
      await present(stage, token)
      await rig.issuer.up()
      rig.clock.advance(1000)
      expect(await user(present(stage, token))).to.equal('ada@example.com')
      expect(stage.health?.()?.reason).to.equal(undefined)
      expect(rig.log.lines.map(({ message }) => message)).to.deep.equal([
        'the key set could not be fetched',
        'the key set could be fetched again',
      ])
    })

    it('are fetched again when only readiness is checked', async () => {
      await rig.issuer.down()
      const stage = await rig.stage()
      await present(stage, await rig.issuer.sign())
      await rig.issuer.up()
      rig.clock.advance(1000)
      expect(stage.health?.()?.reason).to.match(/cannot be fetched/)
      await rig.issuer.asked(1)
      await present(stage, await rig.issuer.sign())
      expect(stage.health?.()?.reason).to.equal(undefined)
    })

    it('verify cached and new tokens for maxAgeSec and staleSec, and no longer', async () => {
      const stage = await rig.stage({ jwks: fresh })
      const known = await rig.issuer.sign({}, { expiresIn: 86_400 })
      const unseen = await rig.issuer.sign({ sub: 'bob' }, { expiresIn: 86_400 })
      await present(stage, known)
      await rig.issuer.down()
      rig.clock.advance(4_199_999)
      expect(await user(present(stage, known))).to.equal('ada@example.com')
      expect(await user(present(stage, unseen))).to.equal('ada@example.com')
      rig.clock.advance(1)
      expect(refusal(await present(stage, known)).code).to.equal('STORE_UNAVAILABLE')
      expect(refusal(await present(stage, unseen)).code).to.equal('STORE_UNAVAILABLE')
    })

    it('delay no call after the first failed fetch, even if the next one hangs', async () => {
      const responses = [
        () => Promise.resolve({ keys: rig.issuer.keys }),
        () => Promise.reject(new Error('down')),
        () => new Promise(() => undefined),
      ]
      rig.useSource({ load: () => responses.shift()?.() ?? Promise.reject(new Error('asked too often')) })
      const stage = await rig.stage({ jwks: { ...fresh, timeoutMs: 60_000 } })
      const token = await rig.issuer.sign({}, { expiresIn: 86_400 })
      await present(stage, token)
      rig.clock.advance(600_000)
      expect(await user(present(stage, token))).to.equal('ada@example.com')
      rig.clock.advance(1000)
      expect(await user(present(stage, token))).to.equal('ada@example.com')
      expect(responses).to.deep.equal([])
    })

    it('cause 503 for an unknown key, which may be new', async () => {
      const stage = await rig.stage()
      await present(stage, await rig.issuer.sign())
      await rig.issuer.rotate()
      await rig.issuer.down()
      expect(refusal(await present(stage, await rig.issuer.sign())).code).to.equal('STORE_UNAVAILABLE')
    })

    it('do not affect calls without a token if those are accepted', async () => {
      await rig.issuer.down()
      const stage = await rig.stage({}, { allowUnauthenticated: true })
      expect((await sendWith(stage)).identity?.authenticated).to.equal(false)
    })
  })

  it('come from a bound JwksSource', async () => {
    rig.useSource({ load: async () => ({ keys: rig.issuer.keys }) })
    expect(await user(present(await rig.stage(), await rig.issuer.sign()))).to.equal('ada@example.com')
    expect(rig.issuer.requests).to.equal(0)
  })

  it('time out when a bound JwksSource ignores its signal', async () => {
    rig.useSource({ load: () => new Promise(() => undefined) })
    const stage = await rig.stage({ jwks: { timeoutMs: 50 } })
    expect(refusal(await present(stage, await rig.issuer.sign())).code).to.equal('STORE_UNAVAILABLE')
  })

  it('survive a reload, and are released by the last stage', async () => {
    const before = await rig.stage()
    const token = await rig.issuer.sign()
    await present(before, token)
    const after = await rig.stage({}, { allowUnauthenticated: true })
    await before.stop?.()
    await present(after, token)
    expect(rig.issuer.requests).to.equal(1)
    expect(rig.context.resources.size).to.equal(2)
    await after.stop?.()
    await after.stop?.()
    expect(rig.context.resources.size).to.equal(0)
  })

  it('are not waited for when the stage stops', async () => {
    rig.issuer.response(() => undefined)
    const stage = await rig.stage()
    await rig.issuer.asked(1)
    const waiting = present(stage, await rig.issuer.sign())
    await stage.stop?.()
    expect(refusal(await waiting).code).to.equal('STORE_UNAVAILABLE')
    expect(rig.log.lines).to.deep.equal([])
  })

  it('are shared by two stages and not by two gateways', async () => {
    await present(await rig.stage(), await rig.issuer.sign())
    await present(await rig.stage(), await rig.issuer.sign())
    expect(rig.issuer.requests).to.equal(1)
    const other = await rig.stage({}, {}, { resources: new Resources() })
    await present(other, await rig.issuer.sign())
    expect(rig.issuer.requests).to.equal(2)
  })
})
