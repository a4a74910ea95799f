// Verifies the mandates of a call, in a fixed order: the first check that fails is the reason.
import type { Clock } from '@svc/core'
import { type JsonObject, type JsonValue, sha256Hex } from '@svc/core/json'
import type { IssuerKeys } from '../keys/issuer-keys.js'
import { isSignedWith } from '../keys/verification-key.js'
import { MandateError, malformed } from '../mandate/error.js'
import { digestOf } from '../mandate/jwt.js'
import { checkConstraints } from './constraints.js'
import type { Action, MandateContent, SignedMandate, Terms } from './signed-mandate.js'

/** The checks in their order, for `svc ap2 inspect`. */
export const checks = [
  'issuer',
  'key',
  'algorithm',
  'signature',
  'times',
  'audience',
  'chain',
  'content',
  'hashes',
  'constraints',
] as const

export type CheckName = (typeof checks)[number]

export interface VerifierRules {
  readonly algorithms: ReadonlySet<string>
  readonly skewSec: number
  /** A payment service has no checkouts, so that it verifies a payment without one. */
  readonly role: 'merchant' | 'payment'
}

export interface VerifiedMandate {
  readonly shape: SignedMandate['shape']
  readonly kind: Action['kind'] | 'intent'
  readonly id: string | undefined
  readonly issuer: string
  readonly subject: string | undefined
  /** SHA-256, hex, of the signed content: the same for every encoding of the mandate. */
  readonly digest: string
  /** Digests of the single-use tokens. */
  readonly used: readonly string[]
  /** The earliest time at which it may have been issued, and the latest at which it expires; milliseconds since the epoch. */
  readonly issuedAt: number | undefined
  readonly expiresAt: number
  readonly terms: Terms
}

/** What the call and the gateway say beside the mandates. */
export interface MandateContext {
  /** The gateway's names. */
  readonly audiences: ReadonlySet<string>
  /** The hash of the open checkout mandate that the call asserts. */
  readonly openCheckoutHash?: string | undefined
}

interface Checked {
  readonly mandate: VerifiedMandate
  readonly content: MandateContent
}

/** Runs after each check that a mandate has passed. */
type OnCheck = (mandate: SignedMandate, check: CheckName) => void

export class MandateVerifier {
  #rules: VerifierRules
  #keys: IssuerKeys
  #clock: Clock

  constructor(rules: VerifierRules, keys: IssuerKeys, clock: Clock) {
    this.#rules = rules
    this.#keys = keys
    this.#clock = clock
  }

  /** Rejects with `MandateError`. */
  async verify(
    mandates: readonly SignedMandate[],
    { audiences, openCheckoutHash }: MandateContext,
    onCheck: OnCheck = () => undefined,
  ): Promise<readonly VerifiedMandate[]> {
    const checked: Checked[] = []
    for (const mandate of mandates) checked.push(await this.#verifyOne(mandate, audiences, onCheck))
    this.#checkTogether(checked, openCheckoutHash)
    for (const mandate of mandates) onCheck(mandate, 'constraints')
    return checked.map(({ mandate }) => mandate)
  }

  async #verifyOne(
    mandate: SignedMandate,
    audiences: ReadonlySet<string>,
    onCheck: OnCheck,
  ): Promise<Checked> {
    const { issued, tokens, shape, subject } = mandate
    const issuer = this.#keys.issuerOf(issued)
    onCheck(mandate, 'issuer')
    const { jwk } = await this.#keys.keyOf(issuer, issued)
    onCheck(mandate, 'key')
    if (!tokens.every(({ alg }) => this.#rules.algorithms.has(alg))) {
      throw new MandateError('ap2_alg_not_allowed', 'the policy does not allow the algorithm of a signature')
    }
    onCheck(mandate, 'algorithm')
    if (!(await isSignedWith(jwk, issued))) {
      throw new MandateError('ap2_bad_signature', "the mandate is not signed with the issuer's key")
    }
    onCheck(mandate, 'signature')
    const sec = this.#clock.now() / 1000
    const { expiry, issuedAt } = checkTimes(mandate.claims, { sec, skewSec: this.#rules.skewSec })
    onCheck(mandate, 'times')
    if (!mandate.audiences.every((audience) => isAmong(audience, audiences))) {
      throw new MandateError('ap2_wrong_audience', 'the mandate is for another audience')
    }
    onCheck(mandate, 'audience')
    await mandate.checkChain()
    onCheck(mandate, 'chain')
    const content = mandate.read()
    onCheck(mandate, 'content')
    mandate.checkHashes(content)
    onCheck(mandate, 'hashes')
    const last = tokens.at(-1) ?? issued
    const verified = {
      shape,
      kind: content.action?.kind ?? ('intent' as const),
      id: content.id,
      issuer,
      subject,
      digest: sha256Hex(last.signingInput),
      used: content.used.map(({ signingInput }) => sha256Hex(signingInput)),
      issuedAt: issuedAt === undefined ? undefined : (issuedAt - this.#rules.skewSec) * 1000,
      expiresAt: (expiry + this.#rules.skewSec) * 1000,
      terms: content.terms,
    }
    return { mandate: verified, content }
  }

  #checkTogether(checked: readonly Checked[], openCheckoutHash: string | undefined): void {
    const contents = checked.map(({ content }) => content)
    const actions = contents.flatMap(({ action }) => action ?? [])
    if (new Set(actions.map(({ kind }) => kind)).size < actions.length) {
      throw new MandateError('ap2_mandate_conflict', 'two different mandates of one kind are given')
    }
    const isPayment = this.#rules.role === 'payment'
    for (const action of actions) checkReference(action, actions, isPayment)
    const opens = contents.flatMap(({ open }) => open)
    const openCheckouts = new Set(
      opens.flatMap(({ body, digests }) => (body.vct === 'mandate.checkout.open.1' ? [...digests] : [])),
    )
    // A payment service has what the call asserts, or nothing.
    const isAsserted = isPayment && openCheckouts.size === 0
    const context = { now: this.#clock.now(), openCheckouts: isAsserted ? openCheckoutHash : openCheckouts }
    for (const open of opens) for (const action of actions) checkConstraints(open, action, context)
  }
}

/** A payment refers to its checkout, which must be present, unless the gateway is in front of a payment service. */
function checkReference(action: Action, actions: readonly Action[], isOptional: boolean): void {
  if (action.kind === 'payment') {
    const checkout = actions.find(({ kind }) => kind === 'checkout')
    if (checkout === undefined && isOptional) return
    const expected = checkout?.kind === 'checkout' ? digestOf(checkout.checkoutJwt, action.hash) : undefined
    if (action.body.transaction_id !== expected) {
      throw new MandateError(
        'ap2_hash_mismatch',
        'transaction_id is not the hash of a checkout_jwt of this call',
      )
    }
  }
  if (action.kind === 'user_payment') {
    const cart = actions.find(({ kind }) => kind === 'cart')
    if (cart === undefined && isOptional) return
    if (cart?.kind !== 'cart' || !action.transactionData.includes(cart.digest)) {
      throw new MandateError(
        'ap2_hash_mismatch',
        'transaction_data has no hash of a cart mandate of this call',
      )
    }
  }
}

/** `aud` is one name or several (RFC 7519 §4.1.3). */
function isAmong(audience: JsonValue | undefined, names: ReadonlySet<string>): boolean {
  if (typeof audience === 'string') return names.has(audience)
  return Array.isArray(audience) && audience.some((name) => typeof name === 'string' && names.has(name))
}

/** Seconds since the epoch, and the tolerated difference in seconds. */
interface Now {
  readonly sec: number
  readonly skewSec: number
}

/** The earliest expiry and issue among the claims, in seconds since the epoch; undefined if none states its issue. */
function checkTimes(
  claims: readonly JsonObject[],
  { sec, skewSec }: Now,
): { readonly expiry: number; readonly issuedAt: number | undefined } {
  let earliest = Number.POSITIVE_INFINITY
  let issuedAt = Number.POSITIVE_INFINITY
  for (const set of claims) {
    const notBefore = Math.max(timeOf(set, 'iat') ?? 0, timeOf(set, 'nbf') ?? 0)
    if (notBefore > sec + skewSec) {
      throw new MandateError('ap2_not_yet_valid', 'the mandate is valid from a later time on')
    }
    earliest = Math.min(earliest, timeOf(set, 'exp') ?? earliest)
    issuedAt = Math.min(issuedAt, timeOf(set, 'iat') ?? issuedAt)
  }
  if (earliest + skewSec <= sec) throw new MandateError('ap2_expired', 'the mandate has expired')
  // Without an expiry, its single use would have to be stored forever.
  if (earliest === Number.POSITIVE_INFINITY) throw malformed('the mandate has no "exp"')
  return { expiry: earliest, issuedAt: Number.isFinite(issuedAt) ? issuedAt : undefined }
}

function timeOf(claims: JsonObject, name: 'iat' | 'nbf' | 'exp'): number | undefined {
  const { [name]: value } = claims
  if (value === undefined || (typeof value === 'number' && value >= 0)) return value
  throw malformed(`"${name}" is not a time`)
}
