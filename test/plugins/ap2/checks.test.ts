import { checkoutToken, type HopInit, issueHop, type LocalKey, signToken } from '@svc/plugin-ap2/dev'
import {
  checkoutBody,
  openCheckoutBody,
  openPaymentBody,
  paymentBody,
} from '@svc/plugin-ap2/internal/issue/mandates'
import { canonicalDigest, digestOf } from '@svc/plugin-ap2/internal/mandate/jwt'
import { expect } from 'chai'
import { agent, issue, issuer, nowSec, purchase, reasonFor, stranger } from './rig.js'

type Json = Record<string, unknown>

/** A chain in which each part can be changed. */
interface ChainChanges {
  readonly root?: Partial<HopInit>
  readonly rootClaims?: Json
  readonly open?: Json
  readonly hop?: Partial<HopInit>
  readonly hopClaims?: Json
  readonly closed?: Json
  readonly checkoutJwt?: string
}

function hopAfter(
  before: string,
  mandate: HopInit['mandate'],
  { hop, hopClaims }: Pick<ChainChanges, 'hop' | 'hopClaims'> = {},
): Promise<string> {
  const claims = { iat: nowSec, aud: 'shop', nonce: 'n-1', sd_hash: digestOf(before), ...hopClaims }
  return issueHop({ key: agent, header: { typ: 'kb+sd-jwt' }, claims, mandate, ...hop })
}

async function chain(changes: ChainChanges = {}): Promise<string> {
  const checkoutJwt = changes.checkoutJwt ?? (await checkoutToken(issuer, purchase))
  const root = await issueHop({
    key: issuer,
    header: { typ: 'mandate+sd-jwt' },
    claims: { iss: issuer.did, ...changes.rootClaims },
    mandate: {
      ...openCheckoutBody(purchase),
      cnf: { jwk: agent.publicJwk },
      iat: nowSec,
      exp: nowSec + 600,
      ...changes.open,
    },
    ...changes.root,
  })
  const hop = await hopAfter(root, { ...checkoutBody(checkoutJwt), ...changes.closed }, changes)
  return `${root}~${hop}`
}

const jws = (claims: Json = {}, key: LocalKey = issuer, header: Json = {}): Promise<string> =>
  checkoutToken(issuer, purchase).then((checkoutJwt) =>
    signToken(
      key,
      { typ: 'mandate+jwt', ...header },
      {
        ...checkoutBody(checkoutJwt),
        iss: issuer.did,
        aud: 'shop',
        iat: nowSec,
        exp: nowSec + 600,
        ...claims,
      },
    ),
  )

async function expectResult(
  mandate: string | object | Promise<string>,
  expected: string,
  rules?: Parameters<typeof reasonFor>[1],
): Promise<void> {
  expect(await reasonFor([(await mandate) as string], rules)).to.equal(expected)
}

describe('the checks of a mandate', () => {
  it('pass for the mandates that the others are changed from', async () => {
    await expectResult(chain(), 'verified')
    await expectResult(jws(), 'verified')
  })

  describe('form', () => {
    const malformed: readonly (readonly [string, () => string | Promise<string>])[] = [
      ['no mandate at all', () => 'abc'],
      ['four parts', () => 'a.b.c.d'],
      ['padding', async () => (await jws()).replace('.', '=.')],
      ['too many characters', () => `${'a'.repeat(70_000)}.b.c`],
      ['too many hops', () => Array.from({ length: 6 }, () => 'a.b.c~d').join('~~')],
      ['an object that is not a mandate', () => '{"contents":{}}'],
      ['two members of one name', () => '{"contents":1,"contents":2}'],
      [
        'a critical extension',
        () => `${Buffer.from('{"alg":"EdDSA","crit":["x"],"x":1}').toString('base64url')}.e30.AA`,
      ],
      ['an unknown vct', () => jws({ vct: 'mandate.checkout.2' })],
      ['a vct with more text', () => jws({ vct: 'mandate.checkout.1 ' })],
      ['a time that is text', () => jws({ exp: '2030' })],
      ['no end', () => jws({ exp: undefined })],
    ]
    for (const [title, make] of malformed) {
      it(`refuses ${title}`, async () => {
        await expectResult(make(), 'ap2_malformed')
      })
    }
  })

  describe('issuer and key', () => {
    it('refuses an issuer that is not allowed', async () => {
      await expectResult(jws(), 'ap2_issuer_not_allowed', { allowed: new Set(['did:web:shop.example']) })
      await expectResult(jws({ iss: undefined }), 'ap2_issuer_not_allowed')
    })

    it('finds the issuer in a kid that is a DID URL', async () => {
      const kid = `${issuer.did}#${issuer.did.slice('did:key:'.length)}`
      await expectResult(jws({ iss: undefined }, issuer, { kid }), 'verified')
    })

    it('refuses a DID method that is not allowed', async () => {
      await expectResult(jws(), 'ap2_did_method_not_allowed', { didMethods: new Set(['web']) })
    })

    it('refuses a key that is not there', async () => {
      await expectResult(jws({}, issuer, { kid: 'other' }), 'ap2_key_unresolved')
      await expectResult(jws(), 'ap2_key_unresolved', { methods: {} })
      const rules = { allowed: new Set(['shop']) }
      await expectResult(jws({ iss: 'shop' }), 'ap2_key_unresolved', rules)
    })

    it('uses the pinned keys of an issuer, and finds it by their kid', async () => {
      const pinned = new Map([['shop', [{ id: 'k1', jwk: issuer.publicJwk }]]])
      const rules = { pinned, allowed: new Set(['shop']) }
      await expectResult(jws({ iss: 'shop' }), 'verified', rules)
      await expectResult(jws({ iss: undefined }, issuer, { kid: 'k1' }), 'verified', rules)
      const byOthers = new Map([[issuer.did, [{ id: 'k1', jwk: stranger.publicJwk }]]])
      await expectResult(jws(), 'ap2_bad_signature', { pinned: byOthers })
    })
  })

  describe('signature', () => {
    it('refuses an algorithm that is not allowed, of any hop', async () => {
      await expectResult(jws(), 'ap2_alg_not_allowed', { algorithms: new Set(['ES256']) })
      await expectResult(chain(), 'ap2_alg_not_allowed', { algorithms: new Set(['EdDSA']) })
      const unsigned = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${(await jws()).split('.')[1]}.AA`
      await expectResult(unsigned, 'ap2_alg_not_allowed')
    })

    it('refuses the signature of another key', async () => {
      await expectResult(jws({}, stranger), 'ap2_bad_signature')
      await expectResult(chain({ root: { key: stranger } }), 'ap2_bad_signature')
    })

    it('refuses a cart and a payment without a signature', async () => {
      const { cart, payment } = (await issue('v01')) as Record<string, Json>
      await expectResult({ ...cart, merchant_authorization: null }, 'ap2_bad_signature')
      await expectResult({ ...payment, user_authorization: null }, 'ap2_bad_signature')
    })
  })

  describe('times', () => {
    it('tolerates the skew of the policy and no more', async () => {
      await expectResult(jws({ exp: nowSec - 29 }), 'verified')
      await expectResult(jws({ exp: nowSec - 30 }), 'ap2_expired')
      await expectResult(jws({ iat: nowSec + 30 }), 'verified')
      await expectResult(jws({ iat: nowSec + 31 }), 'ap2_not_yet_valid')
      await expectResult(jws({ nbf: nowSec + 31 }), 'ap2_not_yet_valid')
    })

    it('counts the times of every hop and of every mandate in them', async () => {
      const past = { exp: nowSec - 100 }
      const future = { iat: nowSec + 100 }
      await expectResult(chain({ rootClaims: past }), 'ap2_expired')
      await expectResult(chain({ open: past }), 'ap2_expired')
      await expectResult(chain({ hopClaims: past }), 'ap2_expired')
      await expectResult(chain({ closed: past }), 'ap2_expired')
      await expectResult(chain({ hopClaims: future }), 'ap2_not_yet_valid')
    })

    it('ends a cart of v0.1 with its cart_expiry', async () => {
      const values = Object.values(await issue('v01', { issuedAt: nowSec - 1000 }))
      expect(await reasonFor(values)).to.equal('ap2_expired')
    })
  })

  describe('audience', () => {
    it('must be an audience of the gateway, in every shape', async () => {
      for (const shape of ['chain', 'jws', 'v01'] as const) {
        const values = Object.values(await issue(shape, { audience: 'other' }))
        expect(await reasonFor(values), shape).to.equal('ap2_wrong_audience')
      }
      await expectResult(jws({ aud: ['other', 'shop'] }), 'verified')
      await expectResult(jws({ aud: undefined }), 'ap2_wrong_audience')
      await expectResult(chain({ rootClaims: { aud: 'other' } }), 'ap2_wrong_audience')
    })
  })

  describe('chain', () => {
    const broken: readonly (readonly [string, ChainChanges])[] = [
      ['a hop with another key than the one before confirms', { hop: { key: stranger } }],
      ['a hop after one that confirms no key', { open: { cnf: undefined } }],
      ['a last hop that confirms another key', { closed: { cnf: { jwk: stranger.publicJwk } } }],
      ['a last hop with another typ', { hop: { header: { typ: 'kb+sd-jwt+kb' } } }],
      ['a first hop with the typ of a holder', { root: { header: { typ: 'kb+sd-jwt' } } }],
      ['no hash of the hop before', { hopClaims: { sd_hash: undefined } }],
      ['both hashes of the hop before', { hopClaims: { issuer_jwt_hash: 'x' } }],
      ['another hash of the hop before', { hopClaims: { sd_hash: digestOf('other') } }],
      ['a hop without a nonce', { hopClaims: { nonce: undefined } }],
      ['a hop with an empty nonce', { hopClaims: { nonce: '' } }],
      ['a hop without an issue time', { hopClaims: { iat: undefined } }],
      ['two delegate payloads', { hopClaims: { delegate_payload: [{}, {}] } }],
      [
        'a closed mandate before the last hop',
        { open: { ...checkoutBody('a.b.c'), constraints: undefined } },
      ],
      ['an open mandate as the last hop', { closed: { ...openCheckoutBody(purchase) } }],
      ['an open mandate of another kind', { open: openPaymentBody(purchase, 'x') }],
    ]
    for (const [title, changes] of broken) {
      it(`refuses ${title}`, async () => {
        await expectResult(chain(changes), 'ap2_chain_broken')
      })
    }

    it('accepts issuer_jwt_hash in place of sd_hash', async () => {
      const text = await chain()
      const [root = ''] = text.split('~~')
      const hopClaims = { sd_hash: undefined, issuer_jwt_hash: digestOf(root.split('~')[0] ?? '') }
      const hop = await hopAfter(root, checkoutBody(await checkoutToken(issuer, purchase)), { hopClaims })
      await expectResult(`${root}~~${hop}`, 'verified')
    })

    it('delegates over a further hop', async () => {
      const text = await chain()
      const [root = ''] = text.split('~~')
      const delegated = { ...openCheckoutBody(purchase), cnf: { jwk: stranger.publicJwk } }
      const middle = await hopAfter(`${root}~`, delegated, { hop: { header: { typ: 'kb+sd-jwt+kb' } } })
      const closed = checkoutBody(await checkoutToken(issuer, purchase))
      const last = (key: LocalKey) => hopAfter(middle, closed, { hop: { key }, hopClaims: { nonce: 'n-2' } })
      await expectResult(`${root}~~${middle}~${await last(stranger)}`, 'verified')
      await expectResult(`${root}~~${middle}~${await last(agent)}`, 'ap2_chain_broken')
    })

    it('refuses disclosures that are empty, double or of no digest', async () => {
      const text = await chain()
      const disclosure = text.split('~').at(-2) ?? ''
      const other = Buffer.from('["salt","name",1]').toString('base64url')
      for (const changed of [`${text}~`, `${text}${disclosure}~`, `${text}${other}~`]) {
        await expectResult(changed, 'ap2_chain_broken')
      }
    })

    it('refuses the key binding of another key, typ or credential in a payment of v0.1', async () => {
      const { cart, payment } = (await issue('v01')) as Record<string, Json>
      const text = String(payment?.['user_authorization'])
      const [credential = ''] = text.split('~')
      const bound = async (key: LocalKey, typ: string, claims: Json = {}) => {
        const token = await signToken(
          key,
          { typ },
          {
            iat: nowSec,
            aud: 'shop',
            nonce: 'n',
            sd_hash: digestOf(`${credential}~`),
            transaction_data: [
              canonicalDigest(cart as never),
              canonicalDigest(payment?.['payment_mandate_contents'] as never),
            ],
            ...claims,
          },
        )
        return [cart, { ...payment, user_authorization: `${credential}~${token}` }] as never[]
      }
      expect(await reasonFor(await bound(agent, 'kb+jwt'))).to.equal('verified')
      expect(await reasonFor(await bound(stranger, 'kb+jwt'))).to.equal('ap2_chain_broken')
      expect(await reasonFor(await bound(agent, 'jwt'))).to.equal('ap2_chain_broken')
      expect(await reasonFor(await bound(agent, 'kb+jwt', { sd_hash: 'x' }))).to.equal('ap2_chain_broken')
      expect(await reasonFor(await bound(agent, 'kb+jwt', { nonce: undefined }))).to.equal('ap2_chain_broken')
      expect(await reasonFor(await bound(agent, 'kb+jwt', { transaction_data: [] }))).to.equal(
        'ap2_hash_mismatch',
      )
    })
  })

  describe('hashes', () => {
    it('recomputes checkout_hash over the exact bytes', async () => {
      const other = await checkoutToken(issuer, { ...purchase, total: 1 })
      await expectResult(jws({ checkout_hash: digestOf(other) }), 'ap2_hash_mismatch')
      await expectResult(chain({ closed: { checkout_jwt: other } }), 'ap2_hash_mismatch')
    })

    it('refuses a checkout that is not disclosed', async () => {
      const { checkout } = await issue('chain')
      const parts = String(checkout).split('~')
      const concealed = [...parts.slice(0, -2), ''].join('~')
      await expectResult(concealed, 'ap2_hash_mismatch')
    })

    it('refuses a payment for another checkout, or for none of this call', async () => {
      const { payment = '' } = await issue('chain')
      await expectResult(payment, 'ap2_hash_mismatch')
      const other = await issue('jws', { purchase: { ...purchase, total: 5 } })
      const together = [other['checkout'] ?? '', (await issue('jws'))['payment'] ?? '']
      expect(await reasonFor(together)).to.equal('ap2_hash_mismatch')
    })

    it('recomputes cart_hash over the canonical contents', async () => {
      const { cart } = (await issue('v01')) as Record<string, Json>
      const contents = { ...(cart?.['contents'] as Json), merchant_name: 'other' }
      await expectResult({ ...cart, contents }, 'ap2_hash_mismatch')
    })

    it('refuses a payment of v0.1 without its cart', async () => {
      const { payment = '' } = await issue('v01')
      await expectResult(payment, 'ap2_hash_mismatch')
    })
  })

  describe('the form of a payment', () => {
    it('must be the form of its vct', async () => {
      const checkoutJwt = await checkoutToken(issuer, purchase)
      const { payee: _, ...body } = paymentBody(purchase, checkoutJwt)
      await expectResult(jws({ ...body, checkout_jwt: undefined }), 'ap2_malformed')
    })
  })
})
