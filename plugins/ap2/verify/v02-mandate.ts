// The mandates of v0.2: a chain of delegated SD-JWTs, in which each hop is signed with the key that the hop before
// confirms, and the gateway's own profile, a compact JWS.
import { canonicalize, type JsonObject, type JsonValue, sha256Hex } from '@svc/core/json'
import { confirmedKeyOf, isSignedWith } from '../keys/verification-key.js'
import {
  type Checkout,
  type CheckoutBody,
  isOpen,
  type OpenBody,
  type PaymentBody,
  parseBody,
  parseCheckout,
} from '../mandate/bodies.js'
import { chainBroken, MandateError } from '../mandate/error.js'
import { digestOf, type HashAlgorithm, type Jwt, parseJwt } from '../mandate/jwt.js'
import { DELEGATING_HOP, type Hop, LAST_HOP } from '../mandate/sd-jwt.js'
import {
  type Action,
  type MandateContent,
  type OpenMandate,
  SignedMandate,
  type Terms,
} from './signed-mandate.js'

export class ChainMandate extends SignedMandate {
  readonly shape = 'sd-jwt'
  readonly hops: readonly [Hop, ...Hop[]]
  #last: Hop

  constructor(hops: readonly [Hop, ...Hop[]]) {
    super(hops[0].jwt)
    this.hops = hops
    this.#last = hops.at(-1) ?? hops[0]
  }

  get identity(): string {
    return this.hops.map(({ text }) => text).join('~')
  }

  override get tokens(): readonly Jwt[] {
    return this.hops.map(({ jwt }) => jwt)
  }

  override get claims(): readonly JsonObject[] {
    return this.hops.flatMap(({ jwt, mandate }) => [jwt.payload, mandate])
  }

  /** The issuer's hop may leave the audience to its delegate. */
  override get audiences(): readonly (JsonValue | undefined)[] {
    const [first, ...others] = this.hops
    const { aud } = first.jwt.payload
    return [...(aud === undefined ? [] : [aud]), ...others.map(({ jwt }) => jwt.payload['aud'])]
  }

  override get subject(): string | undefined {
    const sub = this.issued.payload['sub'] ?? this.hops[0].mandate['sub']
    return typeof sub === 'string' ? sub : undefined
  }

  /** The issuer's hop alone: it delegates, and was not used yet. */
  get isOpenRoot(): boolean {
    const [{ jwt, mandate }] = this.hops
    return this.hops.length === 1 && !isHolderType(jwt.typ) && mandate['cnf'] !== undefined
  }

  /** A holder's hop without the hop before it. */
  get isDetached(): boolean {
    return this.hops.length === 1 && isHolderType(this.issued.typ)
  }

  override async checkChain(): Promise<void> {
    for (const { error } of this.hops) if (error !== undefined) throw error
    const [first, ...others] = this.hops
    if (isHolderType(first.jwt.typ)) throw chainBroken('the chain begins with a hop of a holder')
    let before: Hop = first
    for (const hop of others) {
      await checkHop(hop, before, hop === this.#last)
      before = hop
    }
    if (others.length > 0 && this.#last.mandate['cnf'] !== undefined) {
      throw chainBroken('the last hop confirms another key')
    }
  }

  read(): MandateContent {
    const delegated = this.isOpenRoot ? this.hops : this.hops.slice(0, -1)
    const open = delegated.map((hop) => {
      const body = parseBody(hop.mandate)
      if (!isOpen(body)) throw chainBroken('a hop that is delegated is not an open mandate')
      return openMandate(body, hop.mandate, hop)
    })
    const id = idOf(this.#last.jwt)
    if (this.isOpenRoot) return { id, open, action: undefined, terms: {}, used: [] }
    const closed = closedBody(this.#last.mandate)
    const openVct = closed.vct.replace(/\.1$/, '.open.1')
    if (open.some(({ body }) => body.vct !== openVct))
      throw chainBroken('the chain mixes checkout and payment')
    const action = actionOf(closed, this.#last.hash)
    return { id, open, action, terms: termsOf(action), used: this.tokens }
  }

  checkHashes({ action }: MandateContent): void {
    checkCheckoutHash(action, this.#last.hash)
  }
}

async function checkHop(hop: Hop, before: Hop, isLast: boolean): Promise<void> {
  const { jwt, mandate } = hop
  if (jwt.typ !== (isLast ? LAST_HOP : DELEGATING_HOP))
    throw chainBroken('the "typ" of a hop is not that of its place')
  const jwk = confirmedKeyOf(before.mandate)
  if (jwk === undefined) throw chainBroken('a hop confirms no key for the next')
  if (!(await isSignedWith(jwk, jwt)))
    throw chainBroken('a hop is not signed with the key that the hop before confirms')
  const { sd_hash, issuer_jwt_hash, aud, nonce, iat } = jwt.payload
  if ((sd_hash === undefined) === (issuer_jwt_hash === undefined)) {
    throw chainBroken('a hop has not exactly one of sd_hash and issuer_jwt_hash')
  }
  const expected = digestOf(sd_hash === undefined ? before.jwt.text : before.text, before.hash)
  if ((sd_hash ?? issuer_jwt_hash) !== expected) throw chainBroken('a hop is for another hop before it')
  if (!isText(aud) || !isText(nonce) || typeof iat !== 'number')
    throw chainBroken('a hop has no "aud", "nonce" or "iat"')
  if (!isLast && mandate['cnf'] === undefined) throw chainBroken('a hop delegates to no key')
}

function idOf({ payload }: Jwt): string | undefined {
  const { jti } = payload
  return typeof jti === 'string' ? jti : undefined
}

function isHolderType(typ: string | undefined): boolean {
  return typ === LAST_HOP || typ === DELEGATING_HOP
}

function isText(value: JsonValue | undefined): boolean {
  return typeof value === 'string' && value !== ''
}

export class JwsMandate extends SignedMandate {
  readonly shape = 'jws'

  get identity(): string {
    return this.issued.text
  }

  read(): MandateContent {
    const { payload, text } = this.issued
    const id = idOf(this.issued)
    const body = parseBody(payload)
    if (isOpen(body)) {
      const open = openMandate(body, payload, { text, hidesTerms: false })
      return { id, open: [open], action: undefined, terms: {}, used: [] }
    }
    const action = actionOf(body, 'sha-256')
    return { id, open: [], action, terms: termsOf(action), used: [this.issued] }
  }

  checkHashes({ action }: MandateContent): void {
    checkCheckoutHash(action, 'sha-256')
  }
}

function openMandate(
  body: OpenBody,
  mandate: JsonObject,
  { text, hidesTerms }: { readonly text: string; readonly hidesTerms: boolean },
): OpenMandate {
  const hex = sha256Hex(canonicalize(mandate))
  return { body, hidesTerms, digests: new Set([hex, `sha256:${hex}`, digestOf(text)]) }
}

function actionOf(body: CheckoutBody | PaymentBody, hash: HashAlgorithm): Action {
  if (body.vct === 'mandate.payment.1') return { kind: 'payment', body, hash }
  const { checkout_jwt: checkoutJwt } = body
  if (checkoutJwt === undefined) {
    throw new MandateError('ap2_hash_mismatch', 'the checkout_jwt is not disclosed')
  }
  return { kind: 'checkout', body, checkoutJwt, checkout: parseCheckout(parseJwt(checkoutJwt).payload) }
}

function closedBody(mandate: JsonObject): CheckoutBody | PaymentBody {
  const body = parseBody(mandate)
  if (!isOpen(body)) return body
  throw chainBroken('the last hop of the chain is an open mandate')
}

/** Recomputes `checkout_hash` from the exact bytes. */
function checkCheckoutHash(action: Action | undefined, hash: HashAlgorithm): void {
  if (action?.kind !== 'checkout') return
  if (digestOf(action.checkoutJwt, hash) !== action.body.checkout_hash) {
    throw new MandateError('ap2_hash_mismatch', 'checkout_hash is not the hash of checkout_jwt')
  }
}

function termsOf(action: Action): Terms {
  if (action.kind === 'checkout') return checkoutTerms(action.checkout)
  if (action.kind !== 'payment') return {}
  const { transaction_id, payment_amount, payee, payment_instrument, pisp, execution_date } = action.body
  return {
    total: payment_amount.amount,
    currency: payment_amount.currency,
    merchant: payee.id,
    instrument: payment_instrument.id,
    pisp: pisp?.domain_name ?? null,
    executionDate: execution_date ?? null,
    checkoutHash: transaction_id,
  }
}

function checkoutTerms({ merchant, currency, line_items, totals }: Checkout): Terms {
  const total = totals.filter(({ type }) => type === 'total')
  const [only] = total
  if (only === undefined || total.length > 1) {
    throw new MandateError('ap2_malformed', 'the checkout has not exactly one total')
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
