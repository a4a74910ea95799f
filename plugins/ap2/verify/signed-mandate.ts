// What every shape of a signed mandate offers to the checks that all of them pass, and what its content says.
import type { JsonObject, JsonValue } from '@svc/core/json'
import type { Checkout, CheckoutBody, OpenBody, PaymentBody } from '../mandate/bodies.js'
import type { HashAlgorithm, Jwt } from '../mandate/jwt.js'

/** By default one token, with all claims in its payload. */
export abstract class SignedMandate {
  abstract readonly shape: 'sd-jwt' | 'json' | 'jws'
  /** The same for the same mandate: two mandates of one kind must not differ. */
  abstract get identity(): string
  /** Signed by the issuer. */
  readonly issued: Jwt

  constructor(issued: Jwt) {
    this.issued = issued
  }

  /** All tokens, the issuer's first. */
  get tokens(): readonly Jwt[] {
    return [this.issued]
  }

  /** Where time claims may be. */
  get claims(): readonly JsonObject[] {
    return [this.issued.payload]
  }

  /** `aud` of the token that is presented to the gateway; each given one must be the gateway's. */
  get audiences(): readonly (JsonValue | undefined)[] {
    return [this.issued.payload['aud']]
  }

  get subject(): string | undefined {
    const { sub } = this.issued.payload
    return typeof sub === 'string' ? sub : undefined
  }

  /** The rules among its tokens. Rejects with `MandateFault`. */
  async checkChain(): Promise<void> {
    // One token.
  }

  /** The content, its form and type checked. */
  abstract read(): MandateContent
  /** The hashes that the content has of itself. */
  abstract checkHashes(content: MandateContent): void
}

/** An open mandate: what its delegate may do. */
export interface OpenMandate {
  readonly body: OpenBody
  /** Something is hidden in it that may restrict. */
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
  /** Of v0.1: the digests that a payment refers to. */
  | { readonly kind: 'cart'; readonly digest: string }
  | { readonly kind: 'user_payment'; readonly transactionData: readonly string[]; readonly digest: string }

export interface MandateContent {
  readonly id: string | undefined
  readonly open: readonly OpenMandate[]
  readonly action: Action | undefined
  readonly terms: Terms
  /** The tokens that are good for one use. */
  readonly used: readonly Jwt[]
}

/** Money in minor units, which are exact. */
export interface Terms {
  readonly total?: number
  readonly currency?: string
  readonly merchant?: string
  /** Item id to quantity. */
  readonly items?: ReadonlyMap<string, number>
  readonly instrument?: string
  /** Null: the mandate is for none. */
  readonly pisp?: string | null
  /** Null: at once. */
  readonly executionDate?: string | null
}
