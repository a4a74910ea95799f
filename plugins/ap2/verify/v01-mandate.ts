// The signed mandates of AP2 v0.1: a cart that the merchant signs, a payment that the user signs.
import type { JsonObject, JsonValue } from '@svc/core/json'
import { z } from 'zod'
import { confirmedKeyOf, isSignedWith } from '../keys/verification-key.js'
import { firstIssue } from '../mandate/bodies.js'
import { chainBroken, MandateError, malformed } from '../mandate/error.js'
import { canonicalDigest, digestOf, hashAlgorithmOf, type Jwt, parseJwt } from '../mandate/jwt.js'
import { minorUnitsOf } from './money.js'
import { type MandateContent, SignedMandate, type Terms } from './signed-mandate.js'

const money = z.looseObject({ currency: z.string().min(1), value: z.number() })
const isoTime = z.string().refine((text) => Number.isFinite(Date.parse(text)))

const cart = z.looseObject({
  contents: z.looseObject({
    id: z.string().min(1),
    merchant_name: z.string().min(1),
    cart_expiry: isoTime,
    payment_request: z.looseObject({
      details: z.looseObject({
        total: z.looseObject({ amount: money }),
        display_items: z.array(z.looseObject({ label: z.string() })).default([]),
      }),
    }),
  }),
  merchant_authorization: z.string().nullish(),
})

const payment = z.looseObject({
  payment_mandate_contents: z.looseObject({
    payment_mandate_id: z.string().min(1),
    payment_details_total: z.looseObject({ amount: money }),
    payment_response: z.looseObject({ method_name: z.string().min(1) }),
  }),
  user_authorization: z.string().nullish(),
})

const intent = z.looseObject({ natural_language_description: z.string() })

/** Undefined for an intent, which nobody signs. */
export function mandateOfV01(object: JsonObject): SignedMandate | undefined {
  if ('contents' in object) return new CartMandate(object, checked(cart, object))
  if ('payment_mandate_contents' in object) return new UserPaymentMandate(object, checked(payment, object))
  checked(intent, object)
  return undefined
}

function checked<T>(schema: z.ZodType<T>, object: JsonObject): T {
  const parsed = schema.safeParse(object)
  if (parsed.success) return parsed.data
  throw malformed(`the object is not a mandate of v0.1: ${firstIssue(parsed.error)}`)
}

class CartMandate extends SignedMandate {
  readonly shape = 'json'
  readonly identity: string
  #object: JsonObject
  #value: z.output<typeof cart>

  constructor(object: JsonObject, value: z.output<typeof cart>) {
    super(parseJwt(signedText(value.merchant_authorization, 'merchant_authorization')))
    this.identity = canonicalDigest(object)
    this.#object = object
    this.#value = value
  }

  override get claims(): readonly JsonObject[] {
    return [...super.claims, { exp: Date.parse(this.#value.contents.cart_expiry) / 1000 }]
  }

  read(): MandateContent {
    const { contents } = this.#value
    const { total, display_items } = contents.payment_request.details
    const items = new Map<string, number>()
    for (const { label } of display_items) items.set(label, (items.get(label) ?? 0) + 1)
    return {
      id: contents.id,
      open: [],
      action: { kind: 'cart', digest: this.identity },
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
      throw new MandateError('ap2_hash_mismatch', 'cart_hash is not the hash of the canonical contents')
    }
  }
}

/** `user_authorization` is an SD-JWT with a key-binding JWT (RFC 9901 §4.3). */
class UserPaymentMandate extends SignedMandate {
  readonly shape = 'json'
  readonly identity: string
  #object: JsonObject
  #value: z.output<typeof payment>
  /** The SD-JWT without the key-binding JWT. */
  #presented: string
  #binding: Jwt

  constructor(object: JsonObject, value: z.output<typeof payment>) {
    const text = signedText(value.user_authorization, 'user_authorization')
    const end = text.lastIndexOf('~') + 1
    if (end === 0) throw malformed('user_authorization is not an SD-JWT with a key binding')
    super(parseJwt(text.slice(0, text.indexOf('~'))))
    this.identity = canonicalDigest(object)
    this.#object = object
    this.#value = value
    this.#presented = text.slice(0, end)
    this.#binding = parseJwt(text.slice(end))
  }

  override get tokens(): readonly Jwt[] {
    return [this.issued, this.#binding]
  }

  override get claims(): readonly JsonObject[] {
    return this.tokens.map(({ payload }) => payload)
  }

  override get audiences(): readonly (JsonValue | undefined)[] {
    return [this.#binding.payload['aud']]
  }

  override async checkChain(): Promise<void> {
    const jwk = confirmedKeyOf(this.issued.payload)
    const { typ, payload } = this.#binding
    if (jwk === undefined || typ !== 'kb+jwt' || !(await isSignedWith(jwk, this.#binding))) {
      throw chainBroken('the key binding is not signed with the key that the credential confirms')
    }
    const hash = hashAlgorithmOf(this.issued.payload['_sd_alg'])
    if (payload['sd_hash'] !== digestOf(this.#presented, hash)) {
      throw chainBroken('the key binding is for another credential')
    }
    const { nonce, iat } = payload
    if (typeof nonce !== 'string' || nonce === '' || typeof iat !== 'number') {
      throw chainBroken('the key binding has no "nonce" or "iat"')
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
    throw new MandateError('ap2_hash_mismatch', 'transaction_data has no hash of payment_mandate_contents')
  }
}

function moneyTerms({ currency, value }: { currency: string; value: number }): Terms {
  const total = minorUnitsOf(value, currency)
  if (total === undefined) throw malformed('the total is not an amount of its currency')
  return { total, currency }
}

function signedText(text: string | null | undefined, name: string): string {
  if (typeof text === 'string') return text
  throw new MandateError('ap2_bad_signature', `the mandate is not signed: it has no ${name}`)
}
