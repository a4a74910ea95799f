import { readFileSync } from 'node:fs'
import { generateLocalKey, mandateShapes } from '@svc/plugin-ap2/dev'
import { parseChain } from '@svc/plugin-ap2/internal/mandate/sd-jwt'
import { ChainMandate } from '@svc/plugin-ap2/internal/verify/v02-mandate'
import { expect } from 'chai'
import fc from 'fast-check'
import { FakeClock } from 'svc-sdk/testing'
import { issue, issuer, purchase, reasonFor, verify } from './rig.js'

const published = readFileSync(
  new URL('../../../fixtures/ap2/checkout-chain.txt', import.meta.url),
  'utf8',
).trim()

describe('mandates of each shape', () => {
  for (const shape of mandateShapes) {
    it(`verifies a checkout and a payment as ${shape}`, async () => {
      const verified = await verify(Object.values(await issue(shape)))
      expect(verified.map((mandate) => mandate.issuer)).to.deep.equal([issuer.did, issuer.did])
      expect(verified.map((mandate) => mandate.subject)).to.deep.equal(['user-1', 'user-1'])
      for (const { terms } of verified) expect(terms).to.include({ total: purchase.total, currency: 'USD' })
      const [cart] = verified
      expect([...(cart?.terms.items ?? [])]).to.deep.equal([
        ['shoe', 1],
        ['lace', 2],
      ])
    })

    for (const alg of ['ES256', 'ES384', 'EdDSA'] as const) {
      it(`verifies ${shape} with ${alg}`, async () => {
        const key = generateLocalKey(alg)
        const bundle = await issue(shape, { issuer: key })
        expect(await reasonFor(Object.values(bundle), { allowed: new Set([key.did]) })).to.equal('verified')
      })
    }
  }

  it('verifies a checkout without a payment', async () => {
    const { checkout = '' } = await issue('chain')
    expect(await reasonFor([checkout])).to.equal('verified')
  })

  it('joins the hops of a chain that come apart', async () => {
    const { checkout } = await issue('chain')
    const [open = '', closed = ''] = String(checkout).split('~~')
    expect(await reasonFor([`${open}~`, closed])).to.equal('verified')
    expect(await reasonFor([`${open}~`, String(checkout)])).to.equal('verified')
    expect(await reasonFor([closed])).to.equal('ap2_issuer_not_allowed')
  })

  it('refuses an open mandate that is not that of the chain beside it', async () => {
    const [open = ''] = String((await issue('chain')).checkout).split('~~')
    const { checkout = '' } = await issue('chain')
    expect(await reasonFor([`${open}~`, checkout])).to.equal('ap2_mandate_conflict')
  })

  it('takes a mandate that is given twice for one', async () => {
    const { checkout = '' } = await issue('jws')
    expect(await verify([checkout, checkout])).to.have.lengthOf(1)
  })

  it('refuses two mandates of one kind', async () => {
    const [first, second] = [await issue('jws'), await issue('jws')]
    expect(await reasonFor([first['checkout'] ?? '', second['checkout'] ?? ''])).to.equal(
      'ap2_mandate_conflict',
    )
  })
})

describe('the published chain', () => {
  it('has the second hop of its first, and the hash of its checkout', async () => {
    const chain = new ChainMandate(await parseChain(published))
    await chain.checkChain()
    const content = chain.read()
    chain.checkHashes(content)
    expect(content.terms).to.deep.include({ total: 19900, currency: 'USD', merchant: 'merchant_1' })
  })

  it('fails at its issuer, whose key is not published', async () => {
    const pinned = new Map([
      ['provider', [{ id: 'agent-provider-key-1', jwk: generateLocalKey('ES256').publicJwk }]],
    ])
    const rules = { pinned, allowed: new Set(['provider']), clock: new FakeClock(1777342400_000) }
    expect(await reasonFor([published])).to.equal('ap2_issuer_not_allowed')
    expect(await reasonFor([published], rules)).to.equal('ap2_bad_signature')
  })

  it('breaks with any changed byte of the second hop', async () => {
    const at = published.indexOf('~~') + 2
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: at, max: published.length - 1 }),
        fc.constantFrom('A', 'b', '~', '.'),
        async (index, byte) => {
          fc.pre(published[index] !== byte)
          const changed = `${published.slice(0, index)}${byte}${published.slice(index + 1)}`
          const intact = await parseChain(changed)
            .then(async (hops) => {
              const chain = new ChainMandate(hops)
              await chain.checkChain()
              chain.checkHashes(chain.read())
              return true
            })
            .catch(() => false)
          expect(intact).to.equal(false)
        },
      ),
      { numRuns: 200 },
    )
  })
})

describe('a changed byte', () => {
  for (const shape of mandateShapes) {
    it(`never verifies as ${shape}`, async () => {
      const values = Object.values(await issue(shape))
      const texts = values.map((value) => (typeof value === 'string' ? value : JSON.stringify(value)))
      expect(await reasonFor(texts)).to.equal('verified')
      await fc.assert(
        fc.asyncProperty(fc.nat(), fc.nat(), fc.integer({ min: 1, max: 127 }), async (which, where, mask) => {
          const changed = texts.map((text, index) => {
            if (index !== which % texts.length) return text
            const bytes = Buffer.from(text)
            const at = where % bytes.length
            bytes[at] = (bytes[at] ?? 0) ^ mask
            return bytes.toString('latin1')
          })
          expect(await reasonFor(changed)).to.not.equal('verified')
        }),
        { numRuns: 300 },
      )
    })
  }
})
