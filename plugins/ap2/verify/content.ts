// The content of v0.2 mandates: in a chain, or as the payload of a JWS.
import { canonicalize, type JsonObject, sha256Hex } from '@svc/core/json'
import {
  type Checkout,
  type CheckoutBody,
  isOpen,
  type OpenBody,
  type PaymentBody,
  parseBody,
  parseCheckout,
} from '../mandate/bodies.js'
import { MandateFault } from '../mandate/fault.js'
import { digestOf, type HashAlgorithm } from '../mandate/hash.js'
import { parseJwt } from '../mandate/jwt.js'
import type { Action, OpenMandate } from './checked-mandate.js'
import type { Terms } from './terms.js'

export function openMandate(
  body: OpenBody,
  mandate: JsonObject,
  { text, hidesTerms }: { readonly text: string; readonly hidesTerms: boolean },
): OpenMandate {
  const hex = sha256Hex(canonicalize(mandate))
  return { body, hidesTerms, digests: new Set([hex, `sha256:${hex}`, digestOf(text)]) }
}

export function actionOf(body: CheckoutBody | PaymentBody, hash: HashAlgorithm): Action {
  if (body.vct === 'mandate.payment.1') return { kind: 'payment', body, hash }
  const { checkout_jwt: checkoutJwt } = body
  if (checkoutJwt === undefined) {
    throw new MandateFault('ap2_hash_mismatch', 'the checkout_jwt is not disclosed')
  }
  return { kind: 'checkout', body, checkoutJwt, checkout: parseCheckout(parseJwt(checkoutJwt).payload) }
}

export function closedBody(mandate: JsonObject): CheckoutBody | PaymentBody {
  const body = parseBody(mandate)
  if (!isOpen(body)) return body
  throw new MandateFault('ap2_chain_broken', 'the last hop of the chain is an open mandate')
}

/** Recomputes `checkout_hash` over the exact bytes. */
export function checkCheckoutHash(action: Action | undefined, hash: HashAlgorithm): void {
  if (action?.kind !== 'checkout') return
  if (digestOf(action.checkoutJwt, hash) !== action.body.checkout_hash) {
    throw new MandateFault('ap2_hash_mismatch', 'checkout_hash is not the hash of checkout_jwt')
  }
}

export function termsOf(action: Action): Terms {
  if (action.kind === 'checkout') return checkoutTerms(action.checkout)
  if (action.kind !== 'payment') return {}
  const { payment_amount, payee, payment_instrument, pisp, execution_date } = action.body
  return {
    total: payment_amount.amount,
    currency: payment_amount.currency,
    merchant: payee.id,
    instrument: payment_instrument.id,
    pisp: pisp?.domain_name ?? null,
    executionDate: execution_date ?? null,
  }
}

function checkoutTerms({ merchant, currency, line_items, totals }: Checkout): Terms {
  const total = totals.filter(({ type }) => type === 'total')
  const [only] = total
  if (only === undefined || total.length > 1) {
    throw new MandateFault('ap2_malformed', 'the checkout has not exactly one total')
  }
  const items = new Map<string, number>()
  for (const { item, quantity } of line_items) items.set(item.id, (items.get(item.id) ?? 0) + quantity)
  return {
    total: only.amount,
    currency,
    items,
    ...(merchant === undefined ? {} : { merchant: merchant.id }),
  }
}
