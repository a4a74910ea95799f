// Caches exchanged tokens until shortly before they expire: one exchange at a time per caller, a maximum number of
// callers, and exponential backoff while the token endpoint fails: for the caller whose exchanges fail, as its token may be
// the cause, and for all while the endpoint cannot be reached.
import type { Clock, Meter } from '@svc/core'
import { BoundedMap, CachedReads } from '@svc/core/store'
import type { BrokerInput } from './broker.js'
import { type ExchangedToken, TokenEndpointError } from './token-endpoint.js'

/** The lifetime of a token without `expires_in`, in milliseconds. */
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

/** The caller whose token is exchanged. */
export interface Exchanging {
  readonly digest: string
  readonly principal: string
}

interface Backoff {
  failures: number
  /** Monotonic milliseconds. */
  until: number
}

export class ExchangedTokenCache {
  #clock: Clock
  #meter: Meter | undefined
  #marginMs: number
  /** Keyed by the hash of the caller's token, which itself is not stored. */
  #tokens: CachedReads<CachedToken>
  #unreachable: Backoff = { failures: 0, until: Number.NEGATIVE_INFINITY }
  /** Keyed by caller; only callers whose last exchange failed have an entry. */
  #failing: BoundedMap<string, Backoff>

  constructor({ config, clock, meter }: Pick<BrokerInput, 'config' | 'clock' | 'meter'>) {
    const { cache_size: size = 10_000, expiry_margin_sec: marginSec = 30 } = config
    this.#clock = clock
    this.#meter = meter
    this.#marginMs = marginSec * 1000
    this.#tokens = new CachedReads(clock, size)
    this.#failing = new BoundedMap(size)
  }

  /** The cached token of the caller, or a new one; concurrent calls share one exchange. Rejects with `BrokerError`. */
  get({ digest, principal }: Exchanging, exchange: () => Promise<ExchangedToken>): Promise<CachedToken> {
    const read = () => this.#exchange(principal, exchange)
    return this.#tokens.of(digest, { read, keptMs: ({ until }) => until - this.#now() })
  }

  /** Removes the token unless it was replaced meanwhile. */
  drop(digest: string, token: CachedToken): void {
    this.#tokens.drop(digest, token)
  }

  clear(): void {
    this.#tokens.clear()
  }

  #now(): number {
    return this.#clock.monotonic()
  }

  async #exchange(principal: string, exchange: () => Promise<ExchangedToken>): Promise<CachedToken> {
    const since = this.#now()
    for (const backoff of [this.#unreachable, this.#failing.get(principal)]) {
      if (backoff === undefined || since >= backoff.until) continue
      const seconds = Math.ceil((backoff.until - since) / 1000)
      throw new TokenEndpointError(
        `failed ${backoff.failures} times in a row and is not asked again for ${seconds} s`,
      )
    }
    return cachedToken(await this.#counted(principal, exchange), since, this.#marginMs)
  }

  async #counted(principal: string, exchange: () => Promise<ExchangedToken>): Promise<ExchangedToken> {
    this.#meter?.count('svc_broker_exchanges_total')
    try {
      const exchanged = await exchange()
      this.#recordResponse(principal)
      return exchanged
    } catch (error) {
      this.#meter?.count('svc_broker_exchange_failures_total')
      if (!(error instanceof TokenEndpointError)) this.#recordResponse(principal)
      else if (error.isUnreachable) this.#recordFailure(this.#unreachable)
      else {
        const own = this.#failing.get(principal) ?? { failures: 0, until: Number.NEGATIVE_INFINITY }
        this.#recordFailure(own)
        this.#failing.set(principal, own)
        this.#unreachable.failures = 0
      }
      throw error
    }
  }

  #recordResponse(principal: string): void {
    this.#unreachable.failures = 0
    this.#failing.delete(principal)
  }

  #recordFailure(backoff: Backoff): void {
    // Concurrent exchanges fail together: that counts as one failure.
    if (this.#now() < backoff.until) return
    backoff.failures++
    const beyond = backoff.failures - failuresBeforeBackoff
    if (beyond < 0) return
    backoff.until = this.#now() + Math.min(minBackoffMs * 2 ** beyond, maxBackoffMs)
  }
}

/** The lifetime counts from before the request, so that it is never overestimated. */
function cachedToken({ token, expiresInSec }: ExchangedToken, since: number, marginMs: number): CachedToken {
  const lifetimeMs = expiresInSec === undefined ? defaultLifetimeMs : expiresInSec * 1000
  return { token, since, until: since + lifetimeMs - Math.min(marginMs, lifetimeMs / 2) }
}
