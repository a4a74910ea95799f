// A purchase, and the bodies of mandates for it.
import { digestOf } from '../mandate/hash.js'
import { type LocalKey, signToken } from './local-key.js'

export interface Purchase {
  /** Minor units. */
  readonly total: number
  readonly currency: string
  readonly merchant: { readonly id: string; readonly name: string }
  readonly items: readonly { readonly id: string; readonly title: string; readonly quantity: number }[]
  readonly instrument: { readonly id: string; readonly type: string }
}

/** The checkout as a merchant signs it. */
export function checkoutToken(merchant: LocalKey, purchase: Purchase): Promise<string> {
  const { total, currency, items } = purchase
  return signToken(
    merchant,
    { typ: 'JWT' },
    {
      id: 'checkout-1',
      merchant: purchase.merchant,
      line_items: items.map(({ id, title, quantity }, index) => ({
        id: `line-${index + 1}`,
        item: { id, title },
        quantity,
      })),
      status: 'incomplete',
      currency,
      totals: [{ type: 'total', amount: total }],
    },
  )
}

export function checkoutBody(checkoutJwt: string) {
  return { vct: 'mandate.checkout.1', checkout_jwt: checkoutJwt, checkout_hash: digestOf(checkoutJwt) }
}

export function paymentBody({ merchant, total, currency, instrument }: Purchase, checkoutJwt: string) {
  return {
    vct: 'mandate.payment.1',
    transaction_id: digestOf(checkoutJwt),
    payee: merchant,
    payment_amount: { amount: total, currency },
    payment_instrument: instrument,
  }
}

export function openCheckoutBody({ merchant, items }: Purchase) {
  return {
    vct: 'mandate.checkout.open.1',
    constraints: [
      {
        type: 'checkout.line_items',
        items: items.map(({ id, title, quantity }, index) => ({
          id: `line-${index + 1}`,
          acceptable_items: [{ id, title }],
          quantity,
        })),
      },
      { type: 'checkout.allowed_merchants', allowed: [merchant] },
    ],
  }
}

/** `openCheckoutDigest` is the one under which the open checkout mandate is referred to. */
export function openPaymentBody(purchase: Purchase, openCheckoutDigest: string) {
  const { merchant, total, currency, instrument } = purchase
  return {
    vct: 'mandate.payment.open.1',
    constraints: [
      { type: 'payment.amount_range', currency, max: total },
      { type: 'payment.allowed_payees', allowed: [merchant] },
      { type: 'payment.allowed_payment_instruments', allowed: [instrument] },
      { type: 'payment.reference', conditional_transaction_id: openCheckoutDigest },
    ],
  }
}
