// Remembers tokens that were judged, so that a call on a known token costs a hash and no signature check.
import type { Identity, Refusal } from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import type { OpenServers } from './audience.js'
import { Generations } from './generations.js'
import type { IssuerKey } from './key-set.js'

/** What a verified token says, and for how long it says it. Moments are milliseconds since the epoch. */
export interface VerifiedToken {
  readonly identity: Identity
  /** The servers it is meant for. */
  readonly servers: OpenServers
  /** Empty where the policy asks for none. */
  readonly scopes: ReadonlySet<string>
  /** The key that verified it. */
  readonly key: IssuerKey
  /** From `nbf`, less the clock tolerance. */
  readonly notBefore: number
  /** From `exp`, with the clock tolerance. */
  readonly notAfter: number
}

interface Until<Value> {
  readonly value: Value
  readonly until: number
}

/** Refused tokens to remember at most, and for how long: a client that is set up wrong tries again and again. */
const mostRefused = 1000
const refusedMs = 60_000

export class TokenCache {
  #maxAgeMs: number
  #tokens: Generations<Until<VerifiedToken>>
  #refusals: Generations<Until<Refusal>>

  constructor(size: number, maxAgeMs: number) {
    this.#maxAgeMs = maxAgeMs
    this.#tokens = new Generations(size)
    this.#refusals = new Generations(Math.min(size, mostRefused))
  }

  /** What a token is remembered by; the token itself is kept nowhere. */
  static digest(authorization: string): string {
    return sha256Hex(authorization)
  }

  /** The token, if it is known, within its time, and the issuer still publishes the key that verified it. */
  get(digest: string, now: number): VerifiedToken | undefined {
    const found = this.#tokens.get(digest)
    if (found === undefined) return undefined
    const { value: token, until } = found
    return now < until && now >= token.notBefore && !token.key.retired ? token : undefined
  }

  remember(digest: string, token: VerifiedToken, now: number): void {
    this.#tokens.set(digest, { value: token, until: Math.min(token.notAfter, now + this.#maxAgeMs) })
  }

  /** Why the token was refused a moment ago, for what neither time nor new keys can mend. */
  refusal(digest: string, now: number): Refusal | undefined {
    const found = this.#refusals.get(digest)
    // Back in time, what had expired may not have.
    return found !== undefined && now < found.until && now >= found.until - refusedMs
      ? found.value
      : undefined
  }

  rememberRefusal(digest: string, refusal: Refusal, now: number): void {
    this.#refusals.set(digest, { value: refusal, until: now + refusedMs })
  }
}
