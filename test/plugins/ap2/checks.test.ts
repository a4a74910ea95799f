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
  const hop = await issueHop({
    key: agent,
    header: { typ: 'kb+sd-jwt' },
    claims: { iat: nowSec, aud: 'shop', nonce: 'n-1', sd_hash: digestOf(root), ...changes.hopClaims },
    mandate: { ...checkoutBody(checkoutJwt), ...changes.closed },
    ...changes.hop,
  })
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

describe('the checks of a mandate', () => {
  it('pass for the mandates that the others are changed from', async () => {
    expect(await reasonFor([await chain()])).to.equal('verified')
    expect(await reasonFor([await jws()])).to.equal('verified')
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
        expect(await reasonFor([await make()])).to.equal('ap2_malformed')
      })
    }
  })

  describe('issuer and key', () => {
    it('refuses an issuer that is not allowed', async () => {
      expect(await reasonFor([await jws()], { allowed: new Set(['did:web:shop.example']) })).to.equal(
        'ap2_issuer_not_allowed',
      )
      expect(await reasonFor([await jws({ iss: undefined })])).to.equal('ap2_issuer_not_allowed')
    })

    it('finds the issuer in a kid that is a DID URL', async () => {
      const kid = `${issuer.did}#${issuer.did.slice('did:key:'.length)}`
      expect(await reasonFor([await jws({ iss: undefined }, issuer, { kid })])).to.equal('verified')
    })

    it('refuses a DID method that is not allowed', async () => {
      expect(await reasonFor([await jws()], { didMethods: new Set(['web']) })).to.equal(
        'ap2_did_method_not_allowed',
      )
    })

    it('refuses a key that is not there', async () => {
      expect(await reasonFor([await jws({}, issuer, { kid: 'other' })])).to.equal('ap2_key_unresolved')
      expect(await reasonFor([await jws()], { methods: {} })).to.equal('ap2_key_unresolved')
      const rules = { allowed: new Set(['shop']) }
      expect(await reasonFor([await jws({ iss: 'shop' })], rules)).to.equal('ap2_key_unresolved')
    })

    it('uses the pinned keys of an issuer, and finds it by their kid', async () => {
      const pinned = new Map([['shop', [{ id: 'k1', jwk: issuer.publicJwk }]]])
      const rules = { pinned, allowed: new Set(['shop']) }
      expect(await reasonFor([await jws({ iss: 'shop' })], rules)).to.equal('verified')
      expect(await reasonFor([await jws({ iss: undefined }, issuer, { kid: 'k1' })], rules)).to.equal(
        'verified',
      )
      const byOthers = new Map([[issuer.did, [{ id: 'k1', jwk: stranger.publicJwk }]]])
      expect(await reasonFor([await jws()], { pinned: byOthers })).to.equal('ap2_bad_signature')
    })
  })

  describe('signature', () => {
    it('refuses an algorithm that is not allowed, of any hop', async () => {
      expect(await reasonFor([await jws()], { algorithms: new Set(['ES256']) })).to.equal(
        'ap2_alg_not_allowed',
      )
      expect(await reasonFor([await chain()], { algorithms: new Set(['EdDSA']) })).to.equal(
        'ap2_alg_not_allowed',
      )
      const unsigned = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${(await jws()).split('.')[1]}.AA`
      expect(await reasonFor([unsigned])).to.equal('ap2_alg_not_allowed')
    })

    it('refuses the signature of another key', async () => {
      expect(await reasonFor([await jws({}, stranger)])).to.equal('ap2_bad_signature')
      expect(await reasonFor([await chain({ root: { key: stranger } })])).to.equal('ap2_bad_signature')
    })

    it('refuses a cart and a payment without a signature', async () => {
      const { cart, payment } = (await issue('v01')) as Record<string, Json>
      expect(await reasonFor([{ ...cart, merchant_authorization: null } as never])).to.equal(
        'ap2_bad_signature',
      )
      expect(await reasonFor([{ ...payment, user_authorization: null } as never])).to.equal(
        'ap2_bad_signature',
      )
    })
  })

  describe('times', () => {
    it('tolerates the skew of the policy and no more', async () => {
      expect(await reasonFor([await jws({ exp: nowSec - 29 })])).to.equal('verified')
      expect(await reasonFor([await jws({ exp: nowSec - 30 })])).to.equal('ap2_expired')
      expect(await reasonFor([await jws({ iat: nowSec + 30 })])).to.equal('verified')
      expect(await reasonFor([await jws({ iat: nowSec + 31 })])).to.equal('ap2_not_yet_valid')
      expect(await reasonFor([await jws({ nbf: nowSec + 31 })])).to.equal('ap2_not_yet_valid')
    })

    it('counts the times of every hop and of every mandate in them', async () => {
      const past = { exp: nowSec - 100 }
      const future = { iat: nowSec + 100 }
      expect(await reasonFor([await chain({ rootClaims: past })])).to.equal('ap2_expired')
      expect(await reasonFor([await chain({ open: past })])).to.equal('ap2_expired')
      expect(await reasonFor([await chain({ hopClaims: past })])).to.equal('ap2_expired')
      expect(await reasonFor([await chain({ closed: past })])).to.equal('ap2_expired')
      expect(await reasonFor([await chain({ hopClaims: future })])).to.equal('ap2_not_yet_valid')
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
      expect(await reasonFor([await jws({ aud: ['other', 'shop'] })])).to.equal('verified')
      expect(await reasonFor([await jws({ aud: undefined })])).to.equal('ap2_wrong_audience')
      expect(await reasonFor([await chain({ rootClaims: { aud: 'other' } })])).to.equal('ap2_wrong_audience')
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
        expect(await reasonFor([await chain(changes)])).to.equal('ap2_chain_broken')
      })
    }

    it('accepts issuer_jwt_hash in place of sd_hash', async () => {
      const text = await chain()
      const [root = ''] = text.split('~~')
      const hop = await issueHop({
        key: agent,
        header: { typ: 'kb+sd-jwt' },
        claims: {
          iat: nowSec,
          aud: 'shop',
          nonce: 'n-1',
          issuer_jwt_hash: digestOf(root.split('~')[0] ?? ''),
        },
        mandate: checkoutBody(await checkoutToken(issuer, purchase)),
      })
      expect(await reasonFor([`${root}~~${hop}`])).to.equal('verified')
    })

    it('delegates over a further hop', async () => {
      const text = await chain()
      const [root = ''] = text.split('~~')
      const open = openCheckoutBody(purchase)
      const middle = await issueHop({
        key: agent,
        header: { typ: 'kb+sd-jwt+kb' },
        claims: { iat: nowSec, aud: 'shop', nonce: 'n-1', sd_hash: digestOf(`${root}~`) },
        mandate: { ...open, cnf: { jwk: stranger.publicJwk } },
      })
      const last = (key: LocalKey) =>
        checkoutToken(issuer, purchase).then((checkoutJwt) =>
          issueHop({
            key,
            header: { typ: 'kb+sd-jwt' },
            claims: { iat: nowSec, aud: 'shop', nonce: 'n-2', sd_hash: digestOf(middle) },
            mandate: checkoutBody(checkoutJwt),
          }),
        )
      expect(await reasonFor([`${root}~~${middle}~${await last(stranger)}`])).to.equal('verified')
      expect(await reasonFor([`${root}~~${middle}~${await last(agent)}`])).to.equal('ap2_chain_broken')
    })

    it('refuses disclosures that are empty, double or of no digest', async () => {
      const text = await chain()
      const disclosure = text.split('~').at(-2) ?? ''
      const other = Buffer.from('["salt","name",1]').toString('base64url')
      for (const changed of [`${text}~`, `${text}${disclosure}~`, `${text}${other}~`]) {
        expect(await reasonFor([changed])).to.equal('ap2_chain_broken')
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
      expect(await reasonFor([await jws({ checkout_hash: digestOf(other) })])).to.equal('ap2_hash_mismatch')
      expect(await reasonFor([await chain({ closed: { checkout_jwt: other } })])).to.equal(
        'ap2_hash_mismatch',
      )
    })

    it('refuses a checkout that is not disclosed', async () => {
      const { checkout } = await issue('chain')
      const parts = String(checkout).split('~')
      const concealed = [...parts.slice(0, -2), ''].join('~')
      expect(await reasonFor([concealed])).to.equal('ap2_hash_mismatch')
    })

    it('refuses a payment for another checkout, or for none of this call', async () => {
      const [first, second] = [await issue('chain'), await issue('chain')]
      const { checkout = '' } = first
      const { payment = '' } = second
      expect(await reasonFor([payment])).to.equal('ap2_hash_mismatch')
      const other = await issue('jws', { purchase: { ...purchase, total: 5 } })
      expect(await reasonFor([other['checkout'] ?? '', (await issue('jws'))['payment'] ?? ''])).to.equal(
        'ap2_hash_mismatch',
      )
      expect(checkout).to.be.a('string')
    })

    it('recomputes cart_hash over the canonical contents', async () => {
      const { cart } = (await issue('v01')) as Record<string, Json>
      const contents = { ...(cart?.['contents'] as Json), merchant_name: 'other' }
      expect(await reasonFor([{ ...cart, contents } as never])).to.equal('ap2_hash_mismatch')
    })

    it('refuses a payment of v0.1 without its cart', async () => {
      const { payment = '' } = await issue('v01')
      expect(await reasonFor([payment])).to.equal('ap2_hash_mismatch')
    })
  })

  describe('the form of a payment', () => {
    it('must be the form of its vct', async () => {
      const checkoutJwt = await checkoutToken(issuer, purchase)
      const { payee: _, ...body } = paymentBody(purchase, checkoutJwt)
      expect(await reasonFor([await jws({ ...body, checkout_jwt: undefined })])).to.equal('ap2_malformed')
    })
  })
})
