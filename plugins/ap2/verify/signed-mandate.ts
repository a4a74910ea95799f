// The interface of all shapes of a signed mandate to the common checks, and their content.
import type { JsonObject, JsonValue } from '@svc/core/json'
import type { Checkout, CheckoutBody, OpenBody, PaymentBody } from '../mandate/bodies.js'
import type { HashAlgorithm, Jwt } from '../mandate/jwt.js'

/** The defaults: one token, with all claims in its payload. */
export abstract class SignedMandate {
  abstract readonly shape: 'sd-jwt' | 'json' | 'jws'
  /** The same for the same mandate: two mandates of one kind must not differ. */
  abstract get identity(): string
  /** The token that the issuer signed. */
  readonly issued: Jwt

  constructor(issued: Jwt) {
    this.issued = issued
  }

  /** All tokens, the issuer's first. */
  get tokens(): readonly Jwt[] {
    return [this.issued]
  }

  /** The objects that may contain time claims. */
  get claims(): readonly JsonObject[] {
    return [this.issued.payload]
  }

  /** `aud` of the token that is presented to the gateway; each must be a name of the gateway. */
  get audiences(): readonly (JsonValue | undefined)[] {
    return [this.issued.payload['aud']]
  }

  get subject(): string | undefined {
    const { sub } = this.issued.payload
    return typeof sub === 'string' ? sub : undefined
  }

  /** Checks the rules between its tokens. Rejects with `MandateError`. */
  async checkChain(): Promise<void> {
    // A single token has nothing to check between tokens.
  }

  /** The content, after a check of its form and type. */
  abstract read(): MandateContent
  /** Checks the hashes in the content. */
  abstract checkHashes(content: MandateContent): void
}

/** An open mandate with the constraints of its delegate. */
export interface OpenMandate {
  readonly body: OpenBody
  /** True if a hidden member may restrict. */
  readonly hidesTerms: boolean
  /** Digests under which a payment may refer to it. */
  readonly digests: ReadonlySet<string>
}

/** The action that a mandate authorizes; absent for an intent, which only restricts. */
export type Action =
  | {
      readonly kind: 'checkout'
      readonly body: CheckoutBody
      readonly checkoutJwt: string
      readonly checkout: Checkout
    }
  | { readonly kind: 'payment'; readonly body: PaymentBody; readonly hash: HashAlgorithm }
  /** The digests that a payment of v0.1 refers to. */
  | { readonly kind: 'cart'; readonly digest: string }
  | { readonly kind: 'user_payment'; readonly transactionData: readonly string[]; readonly digest: string }

export interface MandateContent {
  readonly id: string | undefined
  readonly open: readonly OpenMandate[]
  readonly action: Action | undefined
  readonly terms: Terms
  /** The single-use tokens. */
  readonly used: readonly Jwt[]
}

/** An amount in minor units, which are exact. */
export interface Terms {
  readonly total?: number
  readonly currency?: string
  readonly merchant?: string
  /** A map from item id to quantity. */
  readonly items?: ReadonlyMap<string, number>
  readonly instrument?: string
  /** Null if the mandate names none. */
  readonly pisp?: string | null
  /** Null if the payment is executed at once. */
  readonly executionDate?: string | null
  /** The hash of the checkout that a payment is for. */
  readonly checkoutHash?: string
}
