import { checkoutToken, generateLocalKey, issueHop, signToken } from '@svc/plugin-ap2/dev'
import { checkoutBody, openCheckoutBody, paymentBody } from '@svc/plugin-ap2/internal/issue/mandates'
import { digestOf } from '@svc/plugin-ap2/internal/mandate/jwt'
import { meetsRequirements } from '@svc/plugin-ap2/internal/verify/line-items'
import { expect } from 'chai'
import fc from 'fast-check'
import { agent, issuer, nowSec, purchase, reasonFor, verify } from './rig.js'

type Json = Record<string, unknown>

const times = { iat: nowSec, exp: nowSec + 600 }

async function chainOf(open: Json, closed: Json): Promise<{ root: string; text: string }> {
  const root = await issueHop({
    key: issuer,
    header: { typ: 'mandate+sd-jwt' },
    claims: { iss: issuer.did },
    mandate: { ...open, cnf: { jwk: agent.publicJwk }, ...times },
  })
  const hop = await issueHop({
    key: agent,
    header: { typ: 'kb+sd-jwt' },
    claims: { iat: nowSec, aud: 'shop', nonce: 'n', sd_hash: digestOf(root) },
    mandate: closed,
  })
  return { root, text: `${root}~${hop}` }
}

async function checkoutReason(constraints: readonly Json[]): Promise<string> {
  const checkoutJwt = await checkoutToken(issuer, purchase)
  const { text } = await chainOf({ vct: 'mandate.checkout.open.1', constraints }, checkoutBody(checkoutJwt))
  return reasonFor([text])
}

/** `open` and `closed` are changes of the open and the closed payment mandate. */
async function paymentChains(open: Json, closed: Json = {}): Promise<string[]> {
  const checkoutJwt = await checkoutToken(issuer, purchase)
  const checkout = await chainOf(openCheckoutBody(purchase), checkoutBody(checkoutJwt))
  const { text } = await chainOf(
    { vct: 'mandate.payment.open.1', ...open },
    { ...paymentBody(purchase, checkoutJwt), ...closed },
  )
  return [checkout.text, text]
}

const paymentReason = async (constraint: Json, closed: Json = {}, preset: Json = {}): Promise<string> =>
  reasonFor(await paymentChains({ constraints: [constraint], ...preset }, closed))

const [shoe, lace] = purchase.items

describe('the constraints of an open checkout mandate', () => {
  const lines = (...items: readonly Json[]) => ({ type: 'checkout.line_items', items })
  const line = (quantity: number, ...acceptable_items: readonly unknown[]) => ({
    id: 'l',
    acceptable_items,
    quantity,
  })

  it('require exactly the items that they name', async () => {
    expect(await checkoutReason([lines(line(1, shoe), line(2, lace))])).to.equal('verified')
    expect(await checkoutReason([lines(line(3, shoe, lace))])).to.equal('verified')
    expect(await checkoutReason([lines(line(1, shoe))])).to.equal('ap2_constraint_violated')
    expect(await checkoutReason([lines(line(2, shoe), line(2, lace))])).to.equal('ap2_constraint_violated')
    expect(await checkoutReason([lines(line(2, shoe), line(1, lace))])).to.equal('ap2_constraint_violated')
    expect(await checkoutReason([lines(line(3))])).to.equal('ap2_constraint_violated')
  })

  it('require a merchant among those that they allow', async () => {
    const allowed = (...ids: readonly string[]) => ({
      type: 'checkout.allowed_merchants',
      allowed: ids.map((id) => ({ id, name: id })),
    })
    expect(await checkoutReason([allowed('other', 'merchant_1')])).to.equal('verified')
    expect(await checkoutReason([allowed('other')])).to.equal('ap2_constraint_violated')
    expect(await checkoutReason([allowed()])).to.equal('ap2_constraint_violated')
  })

  it('fail if they are not known or have another form', async () => {
    for (const constraint of [
      { type: 'checkout.colour' },
      { type: 'checkout.line_items' },
      { type: 'x y' },
    ]) {
      expect(await checkoutReason([constraint])).to.equal('ap2_constraint_violated')
    }
  })

  it('fail if the holder hides something that may restrict', async () => {
    const concealed = { '...': digestOf('hidden') }
    const constraints = [...openCheckoutBody(purchase).constraints, concealed]
    expect(await checkoutReason(constraints)).to.equal('ap2_constraint_violated')
    const hidden = { ...openCheckoutBody(purchase), _sd: [digestOf('hidden')] }
    const checkoutJwt = await checkoutToken(issuer, purchase)
    const { text } = await chainOf(hidden, checkoutBody(checkoutJwt))
    expect(await reasonFor([text])).to.equal('ap2_constraint_violated')
    const choice = { type: 'checkout.allowed_merchants', allowed: [purchase.merchant, concealed] }
    expect(await checkoutReason([choice])).to.equal('verified')
  })

  it('assign items to requirements wherever that is possible', () => {
    const set = (...ids: readonly string[]) => new Set(ids)
    const items = new Map([
      ['a', 1],
      ['b', 1],
    ])
    const either = { accepted: set('a', 'b'), quantity: 1 }
    const first = { accepted: set('a'), quantity: 1 }
    expect(meetsRequirements(items, [either, first])).to.equal(true)
    expect(meetsRequirements(items, [first, first])).to.equal(false)
  })

  it('find an assignment for every checkout that is made from one', () => {
    const requirement = fc.record({
      ids: fc.uniqueArray(fc.constantFrom('a', 'b', 'c', 'd'), { minLength: 1 }),
      quantity: fc.integer({ min: 1, max: 4 }),
      picks: fc.array(fc.nat(), { minLength: 4, maxLength: 4 }),
    })
    fc.assert(
      fc.property(fc.array(requirement, { minLength: 1, maxLength: 5 }), (made) => {
        const items = new Map<string, number>()
        for (const { ids, quantity, picks } of made) {
          for (const pick of picks.slice(0, quantity)) {
            const id = ids[pick % ids.length]!
            items.set(id, (items.get(id) ?? 0) + 1)
          }
        }
        const requirements = made.map(({ ids, quantity }) => ({ accepted: new Set(ids), quantity }))
        expect(meetsRequirements(items, requirements)).to.equal(true)
        items.set('e', 1)
        expect(meetsRequirements(items, requirements)).to.equal(false)
      }),
    )
  })
})

describe('the constraints of an open payment mandate', () => {
  const cases: readonly (readonly [string, Json, Json, string])[] = [
    [
      'an amount in the range',
      { type: 'payment.amount_range', currency: 'USD', min: 19900, max: 19900 },
      {},
      'verified',
    ],
    ['an amount above', { type: 'payment.amount_range', currency: 'USD', max: 19899 }, {}, 'violated'],
    [
      'an amount below',
      { type: 'payment.amount_range', currency: 'USD', min: 19901, max: 20000 },
      {},
      'violated',
    ],
    ['another currency', { type: 'payment.amount_range', currency: 'EUR', max: 99999 }, {}, 'violated'],
    ['an allowed payee', { type: 'payment.allowed_payees', allowed: [purchase.merchant] }, {}, 'verified'],
    ['another payee', { type: 'payment.allowed_payees', allowed: [{ id: 'x' }] }, {}, 'violated'],
    [
      'an allowed instrument',
      { type: 'payment.allowed_payment_instruments', allowed: [{ id: 'card_1' }] },
      {},
      'verified',
    ],
    [
      'another instrument',
      { type: 'payment.allowed_payment_instruments', allowed: [{ id: 'card_2' }] },
      {},
      'violated',
    ],
    [
      'an allowed payment service',
      { type: 'payment.allowed_pisps', allowed: [{ domain_name: 'a.example' }] },
      { pisp: { domain_name: 'a.example' } },
      'verified',
    ],
    [
      'no payment service',
      { type: 'payment.allowed_pisps', allowed: [{ domain_name: 'a.example' }] },
      {},
      'violated',
    ],
    [
      'an execution at once',
      { type: 'payment.execution_date', not_before: '2025-12-31', not_after: '2026-01-02' },
      {},
      'verified',
    ],
    ['an early execution', { type: 'payment.execution_date', not_before: '2026-01-02' }, {}, 'violated'],
    [
      'a late execution',
      { type: 'payment.execution_date', not_after: '2026-02-01' },
      { execution_date: '2026-02-02' },
      'violated',
    ],
    [
      'a date that is none',
      { type: 'payment.execution_date', not_after: '2026-02-01' },
      { execution_date: 'soon' },
      'violated',
    ],
    ['unlimited recurrence', { type: 'payment.agent_recurrence', frequency: 'ON_DEMAND' }, {}, 'violated'],
    [
      'counted recurrence',
      { type: 'payment.agent_recurrence', frequency: 'ON_DEMAND', max_occurrences: 9 },
      {},
      'violated',
    ],
    ['recurrence by date', { type: 'payment.agent_recurrence', frequency: 'DAILY' }, {}, 'violated'],
    ['a budget', { type: 'payment.budget', currency: 'USD', max: 1000 }, {}, 'violated'],
    [
      'a reference to another checkout',
      { type: 'payment.reference', conditional_transaction_id: 'x' },
      {},
      'violated',
    ],
    ['what is not known', { type: 'payment.moon_phase' }, {}, 'violated'],
  ]
  for (const [title, constraint, closed, expected] of cases) {
    it(`${expected === 'verified' ? 'allow' : 'refuse'} ${title}`, async () => {
      const reason = expected === 'verified' ? expected : 'ap2_constraint_violated'
      expect(await paymentReason(constraint, closed)).to.equal(reason)
    })
  }

  it('accept a reference to the open checkout mandate beside it', async () => {
    const checkoutJwt = await checkoutToken(issuer, purchase)
    const checkout = await chainOf(openCheckoutBody(purchase), checkoutBody(checkoutJwt))
    const reference = { type: 'payment.reference', conditional_transaction_id: digestOf(checkout.root) }
    const open = { vct: 'mandate.payment.open.1', constraints: [reference] }
    const payment = await chainOf(open, paymentBody(purchase, checkoutJwt))
    expect(await reasonFor([checkout.text, payment.text])).to.equal('verified')
  })

  it('keep what the user has set', async () => {
    const range = { type: 'payment.amount_range', currency: 'USD', max: 99999 }
    const same = { payee: { id: 'merchant_1' }, payment_amount: { currency: 'USD', amount: 19900 } }
    expect(await paymentReason(range, {}, same)).to.equal('verified')
    const others: readonly Json[] = [
      { payee: { id: 'other' } },
      { payment_amount: { currency: 'USD', amount: 1 } },
      { payment_instrument: { id: 'card_2' } },
      { pisp: { domain_name: 'a.example' } },
      { execution_date: '2026-01-01' },
    ]
    for (const preset of others) {
      expect(await paymentReason(range, {}, preset)).to.equal('ap2_constraint_violated')
    }
  })
})

describe('a member of a mandate', () => {
  const range = { type: 'payment.amount_range', currency: 'USD', max: 99999 }
  const amount = { amount: 19900, currency: 'USD' }
  const cases: readonly (readonly [string, Json])[] = [
    ['a second amount in another case', { payment_amount: { ...amount, Amount: 999_999 } }],
    ['a second payee with the long s and others', { payee: { id: 'merchant_1', ＩＤ: 'other' } }],
    ['a date in another case, which is none here', { Execution_date: '2030-01-01' }],
    ['a payment service in another case', { PISP: { domain_name: 'a.example' } }],
  ]
  for (const [what, closed] of cases) {
    it(`is not ${what}`, async () => {
      expect(await paymentReason(range, closed)).to.equal('ap2_malformed')
    })
  }
})

describe('the tokens that are good for one use', () => {
  it('are the tokens of every hop, with those of open mandates', async () => {
    const verified = await verify(
      await paymentChains({ constraints: [{ type: 'payment.amount_range', currency: 'USD', max: 99999 }] }),
    )
    expect(verified.map(({ used }) => used.length)).to.deep.equal([2, 2])
  })

  it('are the same under another signature, and with fewer disclosures', async () => {
    const checkoutJwt = await checkoutToken(issuer, purchase)
    const claims = { iss: issuer.did, aud: 'shop', ...times }
    const body = { ...checkoutBody(checkoutJwt), ...claims }
    const key = generateLocalKey('ES256')
    const rules = { allowed: new Set([key.did]) }
    const sign = () => signToken(key, { typ: 'mandate+jwt' }, { ...body, iss: key.did })
    const [first, second] = [await sign(), await sign()]
    expect(first).to.not.equal(second)
    const used = async (text: string) => (await verify([text], rules)).flatMap((mandate) => mandate.used)
    expect(await used(first)).to.deep.equal(await used(second))

    const root = await issueHop({
      key: issuer,
      header: { typ: 'mandate+sd-jwt' },
      claims: { iss: issuer.did },
      mandate: { ...checkoutBody(checkoutJwt), ...times },
      disclosed: { note: 'n' },
    })
    const fewer = [...root.split('~').slice(0, -2), ''].join('~')
    const [all, part] = [await verify([root]), await verify([fewer])]
    expect(all.map((mandate) => mandate.used)).to.deep.equal(part.map((mandate) => mandate.used))
  })
})
