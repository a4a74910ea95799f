// A mandate whose token is verified, and what it says.
import type { Checkout, CheckoutBody, OpenBody, PaymentBody } from '../mandate/bodies.js'
import type { HashAlgorithm } from '../mandate/hash.js'
import type { Jwt } from '../mandate/jwt.js'
import type { Terms } from './terms.js'

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
