// Issues mandates of every shape for one purchase, with local keys: for development and tests.

import { randomUUID } from 'node:crypto'
import type { JsonObject } from '@svc/core/json'
import { defined } from '@svc/core/json'
import { canonicalDigest, digestOf } from '../mandate/jwt.js'
import { majorUnitsOf } from '../verify/money.js'
import { issueHop, type LocalKey, signToken } from './local-key.js'

export interface Issuance {
  /** Signs as the issuer, and as the merchant. */
  readonly issuer: LocalKey
  /** The key of the agent, to which open mandates delegate. */
  readonly agent: LocalKey
  readonly purchase: Purchase
  readonly audience: string
  readonly subject: string
  /** Seconds since the epoch. */
  readonly issuedAt: number
  readonly lifeSec: number
}

export const mandateShapes = ['chain', 'jws', 'v01'] as const

export type MandateShape = (typeof mandateShapes)[number]

/** The members of a bundle. */
export type IssuedBundle = Readonly<Record<string, string | JsonObject>>

export function issueMandates(shape: MandateShape, issuance: Issuance): Promise<IssuedBundle> {
  if (shape === 'chain') return issueChains(issuance)
  return shape === 'jws' ? issueTokens(issuance) : issueObjects(issuance)
}

/** AP2 v0.2: an open and a closed mandate each for checkout and payment. */
async function issueChains(issuance: Issuance): Promise<IssuedBundle> {
  const { issuer, purchase } = issuance
  const checkoutJwt = await checkoutToken(issuer, purchase)
  const openCheckout = await openHop(issuance, openCheckoutBody(purchase))
  const openPayment = await openHop(issuance, openPaymentBody(purchase, digestOf(openCheckout)))
  const { checkout_jwt, ...checkout } = checkoutBody(checkoutJwt)
  return {
    checkout: await closedHop(issuance, openCheckout, checkout, { checkout_jwt }),
    payment: await closedHop(issuance, openPayment, paymentBody(purchase, checkoutJwt)),
  }
}

function openHop(issuance: Issuance, body: Readonly<Record<string, unknown>>): Promise<string> {
  const { issuer, agent, subject, issuedAt, lifeSec } = issuance
  return issueHop({
    key: issuer,
    header: { typ: 'mandate+sd-jwt' },
    claims: { iss: issuer.did, sub: subject },
    mandate: { ...body, cnf: { jwk: agent.publicJwk }, iat: issuedAt, exp: issuedAt + lifeSec },
  })
}

async function closedHop(
  { agent, audience, issuedAt }: Issuance,
  open: string,
  mandate: Readonly<Record<string, unknown>>,
  disclosed?: Readonly<Record<string, unknown>>,
): Promise<string> {
  const hop = await issueHop({
    key: agent,
    header: { typ: 'kb+sd-jwt' },
    claims: { iat: issuedAt, aud: audience, nonce: randomUUID(), sd_hash: digestOf(open) },
    mandate,
    ...defined({ disclosed }),
  })
  return `${open}~${hop}`
}

/** The profile of compact tokens. */
async function issueTokens({ issuer, purchase, ...more }: Issuance): Promise<IssuedBundle> {
  const { audience, subject, issuedAt, lifeSec } = more
  const checkoutJwt = await checkoutToken(issuer, purchase)
  const claims = { iss: issuer.did, sub: subject, aud: audience, iat: issuedAt, exp: issuedAt + lifeSec }
  const sign = (body: Readonly<Record<string, unknown>>) =>
    signToken(issuer, { typ: 'mandate+jwt' }, { ...body, ...claims, jti: randomUUID() })
  return {
    checkout: await sign(checkoutBody(checkoutJwt)),
    payment: await sign(paymentBody(purchase, checkoutJwt)),
  }
}

/** AP2 v0.1: a cart that the merchant signs, and a payment that the user's key binds to it. */
async function issueObjects(issuance: Issuance): Promise<IssuedBundle> {
  const { issuer, agent, purchase, audience, subject, issuedAt, lifeSec } = issuance
  const { currency, total, merchant, items, instrument } = purchase
  const amount = { currency, value: majorUnitsOf(total, currency) }
  const expiry = issuedAt + lifeSec
  const contents = {
    id: randomUUID(),
    user_cart_confirmation_required: true,
    payment_request: {
      details: {
        id: 'order-1',
        total: { label: 'Total', amount },
        display_items: items.flatMap(({ id, quantity }) =>
          Array.from({ length: quantity }, () => ({ label: id })),
        ),
      },
    },
    cart_expiry: new Date(expiry * 1000).toISOString(),
    merchant_name: merchant.id,
  }
  const signed = { iss: issuer.did, sub: subject, iat: issuedAt, exp: expiry }
  const cart = {
    contents,
    merchant_authorization: await signToken(
      issuer,
      { typ: 'JWT' },
      { ...signed, aud: audience, jti: randomUUID(), cart_hash: canonicalDigest(contents) },
    ),
  }
  const payment = {
    payment_mandate_id: randomUUID(),
    payment_details_id: 'order-1',
    payment_details_total: { label: 'Total', amount },
    payment_response: { request_id: 'order-1', method_name: instrument.id },
    merchant_agent: merchant.id,
    timestamp: new Date(issuedAt * 1000).toISOString(),
  }
  const credential = `${await signToken(issuer, { typ: 'dc+sd-jwt' }, { ...signed, cnf: { jwk: agent.publicJwk } })}~`
  const binding = await signToken(
    agent,
    { typ: 'kb+jwt' },
    {
      iat: issuedAt,
      aud: audience,
      nonce: randomUUID(),
      sd_hash: digestOf(credential),
      transaction_data: [canonicalDigest(cart), canonicalDigest(payment)],
    },
  )
  return {
    cart,
    payment: { payment_mandate_contents: payment, user_authorization: `${credential}${binding}` },
  }
}

export interface Purchase {
  /** In minor units. */
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
