// Caches exchanged tokens until shortly before they expire: one exchange at a time per caller, a maximum number of
// callers, and exponential backoff while the token endpoint fails.
import type { Clock, Meter } from '@svc/core'
import { BoundedMap } from '@svc/core/store'
import { type ExchangedToken, TokenEndpointError } from './token-endpoint.js'

/** For a token without `expires_in`. */
const defaultLifetimeMs = 60_000
const failuresBeforeBackoff = 3
const minBackoffMs = 1000
const maxBackoffMs = 30_000

export interface CachedToken {
  readonly token: string
  /** Monotonic milliseconds, like every time here. */
  readonly since: number
  readonly until: number
}

export interface ExchangedTokenCacheOptions {
  readonly size: number
  readonly marginMs: number
  readonly clock: Clock
  readonly meter: Meter | undefined
}

export class ExchangedTokenCache {
  #options: ExchangedTokenCacheOptions
  /** By the hash of the caller's token, which itself is not stored. */
  #cached: BoundedMap<string, CachedToken>
  #exchanging = new Map<string, Promise<CachedToken>>()
  #failures = 0
  #backoffUntil = Number.NEGATIVE_INFINITY

  constructor(options: ExchangedTokenCacheOptions) {
    this.#options = options
    this.#cached = new BoundedMap(options.size)
  }

  /** The cached token of the caller, or a new one; concurrent calls share one exchange. Rejects with `BrokerError`. */
  async get(digest: string, exchange: () => Promise<ExchangedToken>): Promise<CachedToken> {
    const kept = this.#cached.get(digest)
    if (kept !== undefined && this.#now() < kept.until) {
      this.#cached.set(digest, kept)
      return kept
    }
    const exchanging = this.#exchanging.get(digest)
    if (exchanging !== undefined) return exchanging
    const exchanged = this.#exchange(digest, exchange).finally(() => this.#exchanging.delete(digest))
    this.#exchanging.set(digest, exchanged)
    return exchanged
  }

  /** Removes the token unless it was replaced meanwhile. */
  drop(digest: string, token: CachedToken): void {
    if (this.#cached.get(digest) === token) this.#cached.delete(digest)
  }

  clear(): void {
    this.#cached.clear()
  }

  #now(): number {
    return this.#options.clock.monotonic()
  }

  async #exchange(digest: string, exchange: () => Promise<ExchangedToken>): Promise<CachedToken> {
    const since = this.#now()
    if (since < this.#backoffUntil) {
      const seconds = Math.ceil((this.#backoffUntil - since) / 1000)
      throw new TokenEndpointError(
        `failed ${this.#failures} times in a row and is not asked again for ${seconds} s`,
      )
    }
    const kept = cachedToken(await this.#counted(exchange), since, this.#options.marginMs)
    this.#keep(digest, kept)
    return kept
  }

  async #counted(exchange: () => Promise<ExchangedToken>): Promise<ExchangedToken> {
    const { meter } = this.#options
    meter?.count('svc_broker_exchanges_total')
    try {
      const exchanged = await exchange()
      this.#failures = 0
      return exchanged
    } catch (fault) {
      meter?.count('svc_broker_exchange_failures_total')
      if (fault instanceof TokenEndpointError) this.#recordFailure()
      else this.#failures = 0
      throw fault
    }
  }

  #recordFailure(): void {
    // Concurrent exchanges fail together: that counts as one failure.
    if (this.#now() < this.#backoffUntil) return
    this.#failures++
    const beyond = this.#failures - failuresBeforeBackoff
    if (beyond < 0) return
    this.#backoffUntil = this.#now() + Math.min(minBackoffMs * 2 ** beyond, maxBackoffMs)
  }

  #keep(digest: string, kept: CachedToken): void {
    if (this.#now() < kept.until) this.#cached.set(digest, kept)
  }
}

/** The lifetime counts from before the request, so that it is never overestimated. */
function cachedToken({ token, expiresInSec }: ExchangedToken, since: number, marginMs: number): CachedToken {
  const lifetimeMs = expiresInSec === undefined ? defaultLifetimeMs : expiresInSec * 1000
  return { token, since, until: since + lifetimeMs - Math.min(marginMs, lifetimeMs / 2) }
}
