// Caches the results of token verification, so that a known token costs a hash and no signature check.
import type { Identity, Refusal } from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import type { AllowedServers } from './audience.js'
import type { IssuerKey } from './key-set.js'

/** A verified token. Times are milliseconds since the epoch. */
export interface VerifiedToken {
  readonly identity: Identity
  /** The servers it gives access to. */
  readonly servers: AllowedServers
  /** Empty where the policy requires none. */
  readonly scopes: ReadonlySet<string>
  /** The key that verified it. */
  readonly key: IssuerKey
  /** From `nbf`, less the clock tolerance. */
  readonly notBefore: number
  /** From `exp`, with the clock tolerance. */
  readonly notAfter: number
}

interface Expiring<Value> {
  readonly value: Value
  readonly expiresAt: number
}

/** Refused tokens are cached too, because a misconfigured client repeats its calls. */
const maxRefusals = 1000
const refusalTtlMs = 60_000

export class TokenCache {
  #maxAgeMs: number
  #tokens: LruCache<Expiring<VerifiedToken>>
  #refusals: LruCache<Expiring<Refusal>>

  constructor(size: number, maxAgeMs: number) {
    this.#maxAgeMs = maxAgeMs
    this.#tokens = new LruCache(size)
    this.#refusals = new LruCache(Math.min(size, maxRefusals))
  }

  /** The cache key of a token; the token itself is not stored. */
  static digest(authorization: string): string {
    return sha256Hex(authorization)
  }

  /** The token, while it is cached and valid and the issuer still publishes its key. */
  get(digest: string, now: number): VerifiedToken | undefined {
    const found = this.#tokens.get(digest)
    if (found === undefined) return undefined
    const { value: token, expiresAt } = found
    return now < expiresAt && now >= token.notBefore && !token.key.retired ? token : undefined
  }

  set(digest: string, token: VerifiedToken, now: number): void {
    this.#tokens.set(digest, { value: token, expiresAt: Math.min(token.notAfter, now + this.#maxAgeMs) })
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

/**
 * A bounded cache that evicts approximately the least recently used entries, at the cost of one look-up. It has two
 * generations: when the current one is full it becomes the previous one, whose unused entries are then dropped.
 */
class LruCache<Value> {
  #generationSize: number
  #current = new Map<string, Value>()
  #previous = new Map<string, Value>()

  constructor(size: number) {
    this.#generationSize = Math.ceil(size / 2)
  }

  get(key: string): Value | undefined {
    const found = this.#current.get(key)
    if (found !== undefined) return found
    const previous = this.#previous.get(key)
    if (previous !== undefined) this.set(key, previous)
    return previous
  }

  set(key: string, value: Value): void {
    if (this.#generationSize === 0) return
    if (this.#current.size >= this.#generationSize && !this.#current.has(key)) {
      this.#previous = this.#current
      this.#current = new Map()
    }
    this.#current.set(key, value)
  }
}
