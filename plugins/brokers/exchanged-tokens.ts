// Keeps exchanged tokens until shortly before they expire: one exchange at a time for a caller, a bounded
// number of callers, and a pause for an endpoint that fails again and again.
import type { Clock, Meter } from '@svc/core'
import { EndpointDown, type ExchangedToken } from './token-endpoint.js'

/** For a token whose life nobody tells. */
const unknownLifeMs = 60_000
const failuresBeforePause = 3
const firstPauseMs = 1000
const longestPauseMs = 30_000

export interface KeptToken {
  readonly token: string
  /** Monotonic milliseconds, like every moment here. */
  readonly since: number
  readonly until: number
}

export interface ExchangedTokensOptions {
  readonly size: number
  readonly marginMs: number
  readonly clock: Clock
  readonly meter: Meter | undefined
}

export class ExchangedTokens {
  #options: ExchangedTokensOptions
  /** By the hash of the caller's token, which is kept nowhere; the one used longest ago first. */
  #kept = new Map<string, KeptToken>()
  #exchanging = new Map<string, Promise<KeptToken>>()
  #failures = 0
  #pauseUntil = Number.NEGATIVE_INFINITY

  constructor(options: ExchangedTokensOptions) {
    this.#options = options
  }

  /** The token kept for the caller, or a new one; callers of one moment share it. Rejects with `BrokerFault`. */
  async get(digest: string, exchange: () => Promise<ExchangedToken>): Promise<KeptToken> {
    const kept = this.#kept.get(digest)
    if (kept !== undefined) {
      this.#kept.delete(digest)
      if (this.#now() < kept.until) {
        this.#kept.set(digest, kept)
        return kept
      }
    }
    const exchanging = this.#exchanging.get(digest)
    if (exchanging !== undefined) return exchanging
    const exchanged = this.#exchange(digest, exchange).finally(() => this.#exchanging.delete(digest))
    this.#exchanging.set(digest, exchanged)
    return exchanged
  }

  /** Forgets the token, unless another has taken its place. */
  drop(digest: string, token: KeptToken): void {
    if (this.#kept.get(digest) === token) this.#kept.delete(digest)
  }

  clear(): void {
    this.#kept.clear()
  }

  #now(): number {
    return this.#options.clock.monotonic()
  }

  async #exchange(digest: string, exchange: () => Promise<ExchangedToken>): Promise<KeptToken> {
    const since = this.#now()
    if (since < this.#pauseUntil) {
      const seconds = Math.ceil((this.#pauseUntil - since) / 1000)
      throw new EndpointDown(`failed ${this.#failures} times in a row and is left in peace for ${seconds} s`)
    }
    const kept = keptFrom(await this.#counted(exchange), since, this.#options.marginMs)
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
      if (fault instanceof EndpointDown) this.#noteFailure()
      else this.#failures = 0
      throw fault
    }
  }

  #noteFailure(): void {
    // Exchanges that were on their way together fail together: that is one failure.
    if (this.#now() < this.#pauseUntil) return
    this.#failures++
    const beyond = this.#failures - failuresBeforePause
    if (beyond < 0) return
    this.#pauseUntil = this.#now() + Math.min(firstPauseMs * 2 ** beyond, longestPauseMs)
  }

  #keep(digest: string, kept: KeptToken): void {
    if (kept.until <= this.#now()) return
    this.#kept.set(digest, kept)
    if (this.#kept.size <= this.#options.size) return
    const [oldest] = this.#kept.keys()
    if (oldest !== undefined) this.#kept.delete(oldest)
  }
}

/** Its life counts from before it was asked for, so that it is never thought longer than it is. */
function keptFrom({ token, expiresInSec }: ExchangedToken, since: number, marginMs: number): KeptToken {
  const lifeMs = expiresInSec === undefined ? unknownLifeMs : expiresInSec * 1000
  return { token, since, until: since + lifeMs - Math.min(marginMs, lifeMs / 2) }
}
