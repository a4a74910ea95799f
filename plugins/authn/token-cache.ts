// Caches the results of token verification, so that a known token costs a hash and no signature check.
import type { Identity, Refusal } from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import { BoundedMap } from '@svc/core/store'
import type { AllowedServers } from './audience.js'
import type { IssuerKey } from './key-set.js'

/** A verified token. Times are milliseconds since the epoch. */
export interface VerifiedToken {
  readonly identity: Identity
  /** The servers it gives access to. */
  readonly servers: AllowedServers
  /** Empty if the policy requires none. */
  readonly scopes: ReadonlySet<string>
  /** The place of its issuer in the policy. */
  readonly issuer: number
  /** The key that verified it. */
  readonly key: IssuerKey
  /** `nbf` less the clock tolerance. */
  readonly notBefore: number
  /** `exp` plus the clock tolerance. */
  readonly notAfter: number
}

interface Expiring<Value> {
  readonly value: Value
  readonly expiresAt: number
}

interface CachedToken extends Expiring<VerifiedToken> {
  /** How many tokens had been set when it was set. */
  place: number
}

/** Refused tokens are cached too, because a misconfigured client repeats its calls. */
const maxRefusals = 1000
const refusalTtlMs = 60_000

export class TokenCache {
  #size: number
  #maxAgeMs: number
  /** Tokens that have been set so far. */
  #set = 0
  #tokens: BoundedMap<string, CachedToken>
  #refusals: BoundedMap<string, Expiring<Refusal>>

  constructor(size: number, maxAgeMs: number) {
    this.#size = size
    this.#maxAgeMs = maxAgeMs
    this.#tokens = new BoundedMap(size)
    this.#refusals = new BoundedMap(Math.min(size, maxRefusals))
  }

  /** The cache key of a token; the token itself is not stored. */
  static digest(authorization: string): string {
    return sha256Hex(authorization)
  }

  /** The token, while it is cached and valid and the issuer still publishes its key. */
  get(digest: string, now: number): VerifiedToken | undefined {
    const found = this.#tokens.get(digest)
    if (found === undefined) return undefined
    // Set again, so that the token in use stays: the one set longest ago is dropped. Not for each call, because the map makes
    // its table anew after as many as it has entries.
    if (this.#set - found.place > this.#size / 2) {
      found.place = ++this.#set
      this.#tokens.set(digest, found)
    }
    const { value: token, expiresAt } = found
    return now < expiresAt && now >= token.notBefore && !token.key.retired ? token : undefined
  }

  set(digest: string, token: VerifiedToken, now: number): void {
    const expiresAt = Math.min(token.notAfter, now + this.#maxAgeMs)
    this.#tokens.set(digest, { value: token, expiresAt, place: ++this.#set })
  }

  /** The cached refusal of a token. */
  refusal(digest: string, now: number): Refusal | undefined {
    const found = this.#refusals.get(digest)
    // If the clock went back, an expired token may be valid again.
    return found !== undefined && now < found.expiresAt && now >= found.expiresAt - refusalTtlMs
      ? found.value
      : undefined
  }

  setRefusal(digest: string, refusal: Refusal, now: number): void {
    this.#refusals.set(digest, { value: refusal, expiresAt: now + refusalTtlMs })
  }
}
