// The signed mandates of AP2 v0.1: a cart that the merchant signs, a payment that the user signs.
import type { JsonObject, JsonValue } from '@svc/core/json'
import { publicJwkOf } from '../keys/verification-key.js'
import { MandateFault, malformed } from '../mandate/fault.js'
import { canonicalDigest, digestOf, hashAlgorithmOf } from '../mandate/hash.js'
import { type Jwt, parseJwt } from '../mandate/jwt.js'
import { isObject } from '../mandate/text.js'
import type { CartV01, PaymentV01 } from '../mandate/v01.js'
import type { MandateContent } from './checked-mandate.js'
import { minorUnitsOf } from './money.js'
import { isSignedWith } from './signature.js'
import type { SignedMandate } from './signed-mandate.js'
import type { Terms } from './terms.js'

export class CartMandate implements SignedMandate {
  readonly shape = 'json'
  readonly issued: Jwt
  #object: JsonObject
  #value: CartV01

  constructor(object: JsonObject, value: CartV01) {
    this.#object = object
    this.#value = value
    this.issued = parseJwt(signedText(value.merchant_authorization, 'merchant_authorization'))
  }

  get identity(): string {
    return canonicalDigest(this.#object)
  }

  get tokens(): readonly Jwt[] {
    return [this.issued]
  }

  get claims(): readonly JsonObject[] {
    return [this.issued.payload, { exp: Date.parse(this.#value.contents.cart_expiry) / 1000 }]
  }

  get audiences(): readonly (JsonValue | undefined)[] {
    return [this.issued.payload['aud']]
  }

  get subject(): string | undefined {
    return subjectOf(this.issued)
  }

  async checkChain(): Promise<void> {
    // One token.
  }

  read(): MandateContent {
    const { contents } = this.#value
    const { total, display_items } = contents.payment_request.details
    const items = new Map<string, number>()
    for (const { label } of display_items) items.set(label, (items.get(label) ?? 0) + 1)
    return {
      id: contents.id,
      open: [],
      action: { kind: 'cart', digest: canonicalDigest(this.#object) },
      terms: {
        ...moneyTerms(total.amount),
        merchant: contents.merchant_name,
        ...(items.size === 0 ? {} : { items }),
      },
      used: [this.issued],
    }
  }

  checkHashes(): void {
    const { contents = null } = this.#object
    if (this.issued.payload['cart_hash'] !== canonicalDigest(contents)) {
      throw new MandateFault('ap2_hash_mismatch', 'cart_hash is not the hash of the canonical contents')
    }
  }
}

/** `user_authorization` is an SD-JWT with a key-binding JWT (RFC 9901 §4.3). */
export class UserPaymentMandate implements SignedMandate {
  readonly shape = 'json'
  readonly issued: Jwt
  #object: JsonObject
  #value: PaymentV01
  /** The SD-JWT without the key-binding JWT. */
  #presented: string
  #binding: Jwt

  constructor(object: JsonObject, value: PaymentV01) {
    this.#object = object
    this.#value = value
    const text = signedText(value.user_authorization, 'user_authorization')
    const end = text.lastIndexOf('~') + 1
    if (end === 0) throw malformed('user_authorization is not an SD-JWT with a key binding')
    this.#presented = text.slice(0, end)
    this.issued = parseJwt(text.slice(0, text.indexOf('~')))
    this.#binding = parseJwt(text.slice(end))
  }

  get identity(): string {
    return canonicalDigest(this.#object)
  }

  get tokens(): readonly Jwt[] {
    return [this.issued, this.#binding]
  }

  get claims(): readonly JsonObject[] {
    return [this.issued.payload, this.#binding.payload]
  }

  get audiences(): readonly (JsonValue | undefined)[] {
    return [this.#binding.payload['aud']]
  }

  get subject(): string | undefined {
    return subjectOf(this.issued)
  }

  async checkChain(): Promise<void> {
    const { cnf } = this.issued.payload
    const jwk = isObject(cnf) ? publicJwkOf(cnf['jwk']) : undefined
    const { typ, payload } = this.#binding
    if (jwk === undefined || typ !== 'kb+jwt' || !(await isSignedWith(jwk, this.#binding))) {
      throw broken('the key binding is not signed with the key that the credential confirms')
    }
    const hash = hashAlgorithmOf(this.issued.payload['_sd_alg'])
    if (payload['sd_hash'] !== digestOf(this.#presented, hash)) {
      throw broken('the key binding is for another credential')
    }
    const { nonce, iat } = payload
    if (typeof nonce !== 'string' || nonce === '' || typeof iat !== 'number') {
      throw broken('the key binding has no "nonce" or "iat"')
    }
  }

  read(): MandateContent {
    const { payment_mandate_contents: contents } = this.#value
    const { transaction_data: data } = this.#binding.payload
    const transactionData = Array.isArray(data) ? data.filter((entry) => typeof entry === 'string') : []
    const digest = canonicalDigest(this.#object['payment_mandate_contents'] ?? null)
    return {
      id: contents.payment_mandate_id,
      open: [],
      action: { kind: 'user_payment', transactionData, digest },
      terms: {
        ...moneyTerms(contents.payment_details_total.amount),
        instrument: contents.payment_response.method_name,
      },
      used: [this.#binding],
    }
  }

  checkHashes({ action }: MandateContent): void {
    if (action?.kind === 'user_payment' && action.transactionData.includes(action.digest)) return
    throw new MandateFault('ap2_hash_mismatch', 'transaction_data has no hash of payment_mandate_contents')
  }
}

function moneyTerms({ currency, value }: { currency: string; value: number }): Terms {
  const total = minorUnitsOf(value, currency)
  if (total === undefined) throw malformed('the total is no amount of its currency')
  return { total, currency }
}

function signedText(text: string | null | undefined, name: string): string {
  if (typeof text === 'string') return text
  throw new MandateFault('ap2_bad_signature', `the mandate is not signed: it has no ${name}`)
}

function subjectOf({ payload }: Jwt): string | undefined {
  return typeof payload['sub'] === 'string' ? payload['sub'] : undefined
}

function broken(detail: string): MandateFault {
  return new MandateFault('ap2_chain_broken', detail)
}
