// Remembers verified tokens, so that a call on a known token costs a hash and no signature check.
import { type Identity, sha256Hex } from '@svc/core'
import type { OpenServers } from './audience.js'
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

interface Remembered {
  readonly token: VerifiedToken
  readonly until: number
}

/**
 * Bounded, by two generations: a full young one becomes the old one, whose tokens are forgotten unless
 * they are used again. Nearly least-recently-used, at the price of one look-up.
 */
export class TokenCache {
  #half: number
  #maxAgeMs: number
  #young = new Map<string, Remembered>()
  #old = new Map<string, Remembered>()

  constructor(size: number, maxAgeMs: number) {
    this.#half = Math.ceil(size / 2)
    this.#maxAgeMs = maxAgeMs
  }

  /** What a token is remembered by; the token itself is kept nowhere. */
  static digest(authorization: string): string {
    return sha256Hex(authorization)
  }

  /** The token, if it is known, within its time, and the issuer still publishes the key that verified it. */
  get(digest: string, now: number): VerifiedToken | undefined {
    let found = this.#young.get(digest)
    if (found === undefined) {
      found = this.#old.get(digest)
      if (found === undefined) return undefined
      this.#put(digest, found)
    }
    const { token, until } = found
    return now < until && now >= token.notBefore && !token.key.retired ? token : undefined
  }

  remember(digest: string, token: VerifiedToken, now: number): void {
    this.#put(digest, { token, until: Math.min(token.notAfter, now + this.#maxAgeMs) })
  }

  #put(digest: string, entry: Remembered): void {
    if (this.#half === 0) return
    if (this.#young.size >= this.#half && !this.#young.has(digest)) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(digest, entry)
  }
}
