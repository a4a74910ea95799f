// Caches the issuer's key set: one fetch at a time, a limited rate of fetches, and the last valid set for a limited
// time while the issuer is down. It fetches on use, never by a timer.
import { type Clock, type Logger, withTimeout } from '@svc/core'
import { messageOf } from '@svc/core/json'
import type { OidcConfig, SignatureAlgorithm } from './config.js'
import type { JwksSource } from './jwks-source.js'
import { type IssuerKey, type KeySet, matchingKeys, readKeySet } from './key-set.js'

const firstRetryMs = 1000

/** The error while keys are not available, so that no token can be checked. */
export class KeysUnavailableError extends Error {
  override readonly name = 'KeysUnavailableError'
  constructor(
    /** Seconds until the next fetch; at least 1. */
    readonly retryAfterSec: number,
    options: ErrorOptions,
  ) {
    super("the issuer's key set cannot be fetched", options)
  }
}

interface KeyCacheDependencies {
  readonly source: JwksSource
  readonly clock: Clock
  readonly logger: Logger | undefined
}

export class KeyCache {
  #uri: string
  #parts: KeyCacheDependencies
  #refreshMs: number
  #maxAgeMs: number
  #maxStaleMs: number
  #cooldownMs: number
  #timeoutMs: number

  #set: KeySet | undefined
  /** Monotonic milliseconds, like every time here, because the wall clock may jump. */
  #fetchedAt = Number.NEGATIVE_INFINITY
  #refreshing: Promise<void> | undefined
  #failure: unknown
  #failures = 0
  #retryAt = Number.NEGATIVE_INFINITY
  #probeAt = Number.NEGATIVE_INFINITY
  #lastWarning = ''
  #closed = new AbortController()

  constructor(config: Pick<OidcConfig, 'jwks_uri' | 'jwks'>, parts: KeyCacheDependencies) {
    this.#uri = config.jwks_uri
    this.#parts = parts
    this.#maxAgeMs = config.jwks.maxAgeSec * 1000
    this.#refreshMs = this.#maxAgeMs / 2
    this.#maxStaleMs = this.#maxAgeMs + config.jwks.staleSec * 1000
    this.#cooldownMs = config.jwks.cooldownSec * 1000
    this.#timeoutMs = config.jwks.timeoutMs
  }

  /**
   * True while the cached keys can be used without waiting; starts a fetch if one is due. It is cheap, as every call
   * uses it.
   */
  isFresh(): boolean {
    const age = this.#age()
    if (age < this.#refreshMs) return true
    this.#refresh()
    // After a failed fetch no call waits for the next one, or an issuer that hangs would delay every call.
    return age < (this.#failures > 0 ? this.#maxStaleMs : this.#maxAgeMs)
  }

  /** The keys, after a fetch if one is due; rejects with `KeysUnavailableError`. */
  async current(): Promise<KeySet> {
    if (!this.isFresh()) await this.#refreshing
    if (this.#set === undefined || this.#age() >= this.#maxStaleMs) throw this.#unavailable()
    return this.#set
  }

  /**
   * The keys that match a token's header. If none does, the set is fetched again, at most once per cooldown, because
   * the issuer may have added a key.
   */
  async find(alg: SignatureAlgorithm, kid: string | undefined): Promise<IssuerKey[]> {
    const found = matchingKeys(await this.current(), alg, kid)
    return found.length > 0 ? found : this.findAfterRefresh(alg, kid)
  }

  /** Like `find`, after a fetch if the cooldown allows it. */
  async findAfterRefresh(alg: SignatureAlgorithm, kid: string | undefined): Promise<IssuerKey[]> {
    const now = this.#parts.clock.monotonic()
    if (this.#refreshing === undefined && now >= this.#probeAt && this.#refresh() !== undefined) {
      this.#probeAt = now + this.#cooldownMs
    }
    await this.#refreshing
    const found = matchingKeys(await this.current(), alg, kid)
    // The key may be new, which cannot be checked while the issuer is down.
    if (found.length === 0 && this.#failures > 0) throw this.#unavailable()
    return found
  }

  /** Why no token can be checked now. Starts a fetch if one is due. */
  unavailableReason(): string | undefined {
    if (this.isFresh() || this.#age() < this.#maxStaleMs) return undefined
    return this.#failures > 0
      ? `the key set ${this.#uri} cannot be fetched: ${messageOf(this.#failure)}`
      : `the key set ${this.#uri} is being fetched`
  }

  close(): void {
    this.#closed.abort(new Error('the key cache is closed'))
  }

  #age(): number {
    return this.#parts.clock.monotonic() - this.#fetchedAt
  }

  #unavailable(): KeysUnavailableError {
    const waitMs = Math.max(this.#retryAt - this.#parts.clock.monotonic(), firstRetryMs)
    return new KeysUnavailableError(Math.ceil(waitMs / 1000), { cause: this.#failure })
  }

  /** Joins or starts a fetch; undefined during the backoff after a failure. Never rejects. */
  #refresh(): Promise<void> | undefined {
    if (this.#refreshing === undefined && this.#parts.clock.monotonic() >= this.#retryAt) {
      this.#refreshing = this.#fetch().finally(() => {
        this.#refreshing = undefined
      })
    }
    return this.#refreshing
  }

  async #fetch(): Promise<void> {
    const { clock, logger } = this.#parts
    try {
      this.#use(readKeySet(await this.#load(), this.#set))
    } catch (failure) {
      this.#failure = failure
      this.#retryAt = clock.monotonic() + Math.min(firstRetryMs * 2 ** this.#failures, this.#cooldownMs)
      this.#failures++
      if (this.#closed.signal.aborted) return
      logger?.warn(
        { err: failure, jwks_uri: this.#uri, failures: this.#failures },
        'the key set could not be fetched',
      )
    }
  }

  #use(set: KeySet): void {
    for (const [id, key] of this.#set?.keys ?? []) if (!set.keys.has(id)) key.retired = true
    this.#set = set
    this.#fetchedAt = this.#parts.clock.monotonic()
    if (this.#failures > 0) {
      this.#parts.logger?.info(
        { jwks_uri: this.#uri, failures: this.#failures },
        'the key set could be fetched again',
      )
    }
    this.#failure = undefined
    this.#failures = 0
    const warnings = set.warnings.join('; ')
    if (warnings !== '' && warnings !== this.#lastWarning) {
      this.#parts.logger?.warn(
        { jwks_uri: this.#uri, warnings: set.warnings },
        'keys of the key set are not used',
      )
    }
    this.#lastWarning = warnings
  }

  #load(): Promise<unknown> {
    const ms = this.#timeoutMs
    const error = new Error(`no complete response within ${ms} ms`)
    return withTimeout({ ms, error, stop: this.#closed.signal }, (signal) =>
      this.#parts.source.load(this.#uri, signal),
    )
  }
}
