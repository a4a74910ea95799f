// A chain of delegated SD-JWTs (AP2 v0.2): each hop is signed with the key that the hop before confirms.
import type { JsonObject, JsonValue } from '@svc/core/json'
import { publicJwkOf } from '../keys/verification-key.js'
import { isOpen, parseBody } from '../mandate/bodies.js'
import { MandateFault } from '../mandate/fault.js'
import { digestOf } from '../mandate/hash.js'
import type { Jwt } from '../mandate/jwt.js'
import { DELEGATING_HOP, type Hop, LAST_HOP } from '../mandate/sd-jwt.js'
import { isObject } from '../mandate/text.js'
import type { MandateContent } from './checked-mandate.js'
import { actionOf, checkCheckoutHash, closedBody, openMandate, termsOf } from './content.js'
import { isSignedWith } from './signature.js'
import type { SignedMandate } from './signed-mandate.js'

export class ChainMandate implements SignedMandate {
  readonly shape = 'sd-jwt'
  readonly hops: readonly [Hop, ...Hop[]]
  #last: Hop

  constructor(hops: readonly [Hop, ...Hop[]]) {
    this.hops = hops
    this.#last = hops.at(-1) ?? hops[0]
  }

  get identity(): string {
    return this.hops.map(({ text }) => text).join('~')
  }

  get issued(): Jwt {
    return this.hops[0].jwt
  }

  get tokens(): readonly Jwt[] {
    return this.hops.map(({ jwt }) => jwt)
  }

  get claims(): readonly JsonObject[] {
    return this.hops.flatMap(({ jwt, mandate }) => [jwt.payload, mandate])
  }

  /** The issuer's hop may leave the audience open to its delegate. */
  get audiences(): readonly (JsonValue | undefined)[] {
    const [first, ...others] = this.hops
    const { aud } = first.jwt.payload
    return [...(aud === undefined ? [] : [aud]), ...others.map(({ jwt }) => jwt.payload['aud'])]
  }

  get subject(): string | undefined {
    const sub = this.issued.payload['sub'] ?? this.hops[0].mandate['sub']
    return typeof sub === 'string' ? sub : undefined
  }

  /** The issuer's hop alone: it delegates, and nobody has acted on it. */
  get isOpenRoot(): boolean {
    const [{ jwt, mandate }] = this.hops
    return this.hops.length === 1 && !isHolderType(jwt.typ) && mandate['cnf'] !== undefined
  }

  /** A holder's hop without what it follows. */
  get isDetached(): boolean {
    return this.hops.length === 1 && isHolderType(this.issued.typ)
  }

  async checkChain(): Promise<void> {
    for (const { fault } of this.hops) if (fault !== undefined) throw fault
    const [first, ...others] = this.hops
    if (isHolderType(first.jwt.typ)) throw broken('the chain begins with a hop of a holder')
    let before: Hop = first
    for (const hop of others) {
      await checkHop(hop, before, hop === this.#last)
      before = hop
    }
    if (others.length > 0 && this.#last.mandate['cnf'] !== undefined) {
      throw broken('the last hop confirms another key')
    }
  }

  read(): MandateContent {
    const delegated = this.isOpenRoot ? this.hops : this.hops.slice(0, -1)
    const open = delegated.map((hop) => {
      const body = parseBody(hop.mandate)
      if (!isOpen(body)) throw broken('a hop that is delegated is not an open mandate')
      return openMandate(body, hop.mandate, hop)
    })
    const id = idOf(this.#last.jwt)
    if (this.isOpenRoot) return { id, open, action: undefined, terms: {}, used: [] }
    const closed = closedBody(this.#last.mandate)
    const openVct = closed.vct.replace(/\.1$/, '.open.1')
    if (open.some(({ body }) => body.vct !== openVct)) throw broken('the chain mixes checkout and payment')
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
    throw broken('the "typ" of a hop is not that of its place')
  const { cnf } = before.mandate
  const jwk = isObject(cnf) ? publicJwkOf(cnf['jwk']) : undefined
  if (jwk === undefined) throw broken('a hop confirms no key for the next')
  if (!(await isSignedWith(jwk, jwt)))
    throw broken('a hop is not signed with the key that the hop before confirms')
  const { sd_hash, issuer_jwt_hash, aud, nonce, iat } = jwt.payload
  if ((sd_hash === undefined) === (issuer_jwt_hash === undefined)) {
    throw broken('a hop has not exactly one of sd_hash and issuer_jwt_hash')
  }
  const expected = digestOf(sd_hash === undefined ? before.jwt.text : before.text, before.hash)
  if ((sd_hash ?? issuer_jwt_hash) !== expected) throw broken('a hop is for another hop before it')
  if (!isText(aud) || !isText(nonce) || typeof iat !== 'number')
    throw broken('a hop has no "aud", "nonce" or "iat"')
  if (!isLast && mandate['cnf'] === undefined) throw broken('a hop delegates to no key')
}

export function idOf({ payload }: Jwt): string | undefined {
  const { jti } = payload
  return typeof jti === 'string' ? jti : undefined
}

function isHolderType(typ: string | undefined): boolean {
  return typ === LAST_HOP || typ === DELEGATING_HOP
}

function isText(value: JsonValue | undefined): boolean {
  return typeof value === 'string' && value !== ''
}

function broken(detail: string): MandateFault {
  return new MandateFault('ap2_chain_broken', detail)
}
