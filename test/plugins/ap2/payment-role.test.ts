// A gateway in front of a payment service, which gets a payment mandate and never its checkout.
import { canonicalize, type JsonObject } from '@svc/core/json'
import { ap2Plugin } from '@svc/plugin-ap2'
import { issueMandates } from '@svc/plugin-ap2/dev'
import { digestOf } from '@svc/plugin-ap2/internal/mandate/jwt'
import { expect } from 'chai'
import { FakeClock } from 'svc-sdk/testing'
import { checkSection } from '../../support/check.js'
import { startTestGateway } from '../../support/gateway.js'
import { startUpstream } from '../../support/upstream.js'
import { issuance, issue, issuer, purchase, reasonFor, verify } from './rig.js'

const role = 'payment'

/** The digest of the open mandate at the beginning of a chain. */
const openDigest = (chain: unknown): string => digestOf(`${String(chain).split('~~')[0]}~`)

describe('a payment mandate without its checkout', () => {
  for (const shape of ['jws', 'v01'] as const) {
    it(`as ${shape} is verified by itself for a payment service, and refused for a merchant`, async () => {
      const { payment = '' } = await issue(shape)
      expect(await reasonFor([payment], { role })).to.equal('verified')
      expect(await reasonFor([payment])).to.equal('ap2_hash_mismatch')
    })
  }

  it('as a chain has a reference to its open checkout that the call must assert', async () => {
    const { payment = '', checkout = '' } = await issue('chain')
    const openCheckoutHash = openDigest(checkout)
    expect(await reasonFor([payment], { role, openCheckoutHash })).to.equal('verified')
    expect(await reasonFor([payment], { role })).to.equal('ap2_unresolved_constraint')
    const other = openDigest((await issue('chain')).checkout)
    expect(await reasonFor([payment], { role, openCheckoutHash: other })).to.equal('ap2_constraint_violated')
    expect(await reasonFor([payment], { openCheckoutHash })).to.equal('ap2_hash_mismatch')
  })

  it('is compared with a checkout that is there, whatever the call asserts', async () => {
    const { payment = '', checkout = '' } = await issue('chain')
    expect(await reasonFor([payment, checkout], { role })).to.equal('verified')
    const { checkout: other = '' } = await issue('chain', { purchase: { ...purchase, total: 1 } })
    const openCheckoutHash = openDigest(checkout)
    expect(await reasonFor([payment, other], { role, openCheckoutHash })).to.equal('ap2_hash_mismatch')
    const [tokens, others] = [await issue('jws'), await issue('jws', { purchase: { ...purchase, total: 1 } })]
    expect(await reasonFor([tokens['payment'] ?? '', others['checkout'] ?? ''], { role })).to.equal(
      'ap2_hash_mismatch',
    )
  })
})

describe('a gateway in front of a payment service', () => {
  const bind = {
    total: '/amount',
    currency: '/currency',
    merchant: '/payee',
    instrument: '/card',
    checkoutHash: '/checkout_hash',
    openCheckoutHash: '/open_checkout_hash',
  }
  const section = {
    role: 'payment' as const,
    mode: 'full' as const,
    trust: { issuersAllowlist: [issuer.did] },
    tools: { bind: { 'shop/charge': bind } },
  }

  it('sends a charge once, records what the call asserts, and refuses another or no assertion', async () => {
    await using upstream = await startUpstream()
    await using gateway = await startTestGateway({ targets: { shop: upstream.url }, ap2: section })
    const issuedAt = Math.floor(Date.now() / 1000)
    const { payment = '', checkout = '' } = await issueMandates('chain', { ...issuance, issuedAt })
    const both = await verify([payment, checkout], { clock: new FakeClock(Date.now()) })
    const checkoutHash = both.find(({ kind }) => kind === 'payment')?.terms.checkoutHash ?? ''
    const hashes = { checkout_hash: checkoutHash, open_checkout_hash: openDigest(checkout) }
    const charge = async (mandates: object, args: object): Promise<unknown> => {
      const bundle = Buffer.from(canonicalize(mandates as JsonObject)).toString('base64url')
      const order = { amount: purchase.total, currency: 'USD', payee: 'merchant_1', card: 'card_1', ...args }
      const response = await gateway.invoke('/mcp/shop/charge@1.0.0', order, { 'x-ap2-bundle': bundle })
      const body = (await response.json()) as { readonly denial_reason?: string }
      return response.status === 200 ? 200 : body.denial_reason
    }
    expect(await charge({ payment }, {})).to.equal('ap2_unresolved_constraint')
    expect(await charge({ payment }, { open_checkout_hash: 'x' })).to.equal('ap2_constraint_violated')
    expect(await charge({ payment }, { ...hashes, checkout_hash: 'x' })).to.equal('ap2_hash_mismatch')
    expect(await charge({ payment }, { ...hashes, amount: 1 })).to.equal('ap2_cart_mismatch')
    expect(await charge({ checkout }, hashes)).to.equal('ap2_missing')
    expect(await charge({ payment }, hashes)).to.equal(200)
    expect(await charge({ payment }, hashes)).to.equal('ap2_replayed')
    expect(upstream.calls).to.have.lengthOf(1)
    const sent = gateway.records().find(({ policy }) => policy.decision === 'allow')
    expect(sent?.agentMetadata?.['ap2']).to.deep.include({ verified: true, asserted: hashes })
  })

  it('is warned of settings that refuse payments, or have no effect for a merchant', () => {
    expect(checkSection(ap2Plugin, section)).to.deep.equal([])
    const others = { trust: section.trust, tools: { bind: { 'shop/charge': { ...bind, items: '/items' } } } }
    expect(checkSection(ap2Plugin, { ...others, role })).to.deep.equal([
      'warning ap2.tools.bind.shop/charge.items: a payment mandate bounds no items, so a call without its checkout is refused',
    ])
    expect(checkSection(ap2Plugin, others)).to.deep.equal([
      'warning ap2.tools.bind.shop/charge.openCheckoutHash: has no effect with role: merchant',
    ])
    const { openCheckoutHash: _none, ...less } = bind
    expect(checkSection(ap2Plugin, { ...section, tools: { bind: { 'shop/charge': less } } })).to.deep.equal([
      'warning ap2.tools.bind.shop/charge: without openCheckoutHash, a payment mandate with the constraint payment.reference is refused',
    ])
  })
})
