// Keeps the issuer's key set: one fetch at a time, a bounded rate of them, and the last good set for a
// bounded time while the issuer is down. It fetches on use, never by a timer.
import type { Clock, Logger } from '@svc/core'
import { messageOf } from '@svc/core/json'
import type { OidcConfig, SignatureAlgorithm } from './config.js'
import type { JwksSource } from './jwks-source.js'
import { type IssuerKey, type KeySet, pick, readKeySet } from './key-set.js'

const firstRetryMs = 1000

/** The keys are not to be had, so nothing can be said of any token. */
export class KeysUnavailable extends Error {
  override readonly name = 'KeysUnavailable'
  constructor(
    /** Seconds until it is worth trying again; at least 1. */
    readonly retryAfterSec: number,
    options: ErrorOptions,
  ) {
    super("the issuer's key set cannot be fetched", options)
  }
}

export interface KeyCacheParts {
  readonly source: JwksSource
  readonly clock: Clock
  readonly logger: Logger | undefined
}

export class KeyCache {
  #uri: string
  #parts: KeyCacheParts
  #renewMs: number
  #maxAgeMs: number
  #endMs: number
  #cooldownMs: number
  #timeoutMs: number

  #set: KeySet | undefined
  /** Monotonic milliseconds, like every moment here: the wall clock may jump. */
  #fetchedAt = Number.NEGATIVE_INFINITY
  #renewing: Promise<void> | undefined
  #failure: unknown
  #failures = 0
  #retryAt = Number.NEGATIVE_INFINITY
  #probeAt = Number.NEGATIVE_INFINITY
  #remarked = ''
  #closed = new AbortController()

  constructor(config: Pick<OidcConfig, 'jwks_uri' | 'jwks'>, parts: KeyCacheParts) {
    this.#uri = config.jwks_uri
    this.#parts = parts
    this.#maxAgeMs = config.jwks.maxAgeSec * 1000
    this.#renewMs = this.#maxAgeMs / 2
    this.#endMs = this.#maxAgeMs + config.jwks.staleSec * 1000
    this.#cooldownMs = config.jwks.cooldownSec * 1000
    this.#timeoutMs = config.jwks.timeoutMs
  }

  /**
   * True while the keys at hand may be relied on without waiting; begins a fetch where one is due. Cheap:
   * it is asked on every call.
   */
  fresh(): boolean {
    const age = this.#age()
    if (age < this.#renewMs) return true
    this.#renew()
    // Once a fetch has failed nobody waits for the next: an issuer that hangs would hold up every call.
    return age < (this.#failures > 0 ? this.#endMs : this.#maxAgeMs)
  }

  /** Resolves when the keys at hand may be relied on; rejects with `KeysUnavailable`. */
  async usable(): Promise<KeySet> {
    if (!this.fresh()) await this.#renewing
    if (this.#set === undefined || this.#age() >= this.#endMs) throw this.#unavailable()
    return this.#set
  }

  /**
   * The keys a token's header may mean. When there is none the set is fetched anew, at most once per
   * cool-down, for the issuer may have begun to use a new key.
   */
  async find(alg: SignatureAlgorithm, kid: string | undefined): Promise<IssuerKey[]> {
    const found = pick(await this.usable(), alg, kid)
    return found.length > 0 ? found : this.findAnew(alg, kid)
  }

  /** Like `find`, but looks at the issuer first, where the cool-down lets it. */
  async findAnew(alg: SignatureAlgorithm, kid: string | undefined): Promise<IssuerKey[]> {
    const now = this.#parts.clock.monotonic()
    if (this.#renewing === undefined && now >= this.#probeAt && this.#renew() !== undefined) {
      this.#probeAt = now + this.#cooldownMs
    }
    await this.#renewing
    const found = pick(await this.usable(), alg, kid)
    // The key may be a new one, and there is no telling while the issuer cannot be asked.
    if (found.length === 0 && this.#failures > 0) throw this.#unavailable()
    return found
  }

  /** Why no token could be checked now. Begins a fetch where one is due. */
  trouble(): string | undefined {
    if (this.fresh() || this.#age() < this.#endMs) return undefined
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

  #unavailable(): KeysUnavailable {
    const waitMs = Math.max(this.#retryAt - this.#parts.clock.monotonic(), firstRetryMs)
    return new KeysUnavailable(Math.ceil(waitMs / 1000), { cause: this.#failure })
  }

  /** Joins or begins a fetch; undefined while the last failure is too recent. Never rejects. */
  #renew(): Promise<void> | undefined {
    if (this.#renewing === undefined && this.#parts.clock.monotonic() >= this.#retryAt) {
      this.#renewing = this.#fetch().finally(() => {
        this.#renewing = undefined
      })
    }
    return this.#renewing
  }

  async #fetch(): Promise<void> {
    const { clock, logger } = this.#parts
    try {
      this.#accept(readKeySet(await this.#load(), this.#set))
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

  #accept(set: KeySet): void {
    for (const [id, key] of this.#set?.keys ?? []) if (!set.keys.has(id)) key.retired = true
    this.#set = set
    this.#fetchedAt = this.#parts.clock.monotonic()
    if (this.#failures > 0) {
      this.#parts.logger?.info(
        { jwks_uri: this.#uri, failures: this.#failures },
        'the key set is fetched again',
      )
    }
    this.#failure = undefined
    this.#failures = 0
    const remarks = set.remarks.join('; ')
    if (remarks !== '' && remarks !== this.#remarked) {
      this.#parts.logger?.warn(
        { jwks_uri: this.#uri, remarks: set.remarks },
        'keys of the key set are not used',
      )
    }
    this.#remarked = remarks
  }

  /** The document, within the time limit even where the source does not heed the signal. */
  async #load(): Promise<unknown> {
    const late = new AbortController()
    const timer = setTimeout(
      () => late.abort(new Error(`no whole answer within ${this.#timeoutMs} ms`)),
      this.#timeoutMs,
    )
    const stop = () => late.abort(this.#closed.signal.reason)
    this.#closed.signal.addEventListener('abort', stop)
    try {
      this.#closed.signal.throwIfAborted()
      return await Promise.race([aborted(late.signal), this.#parts.source.load(this.#uri, late.signal)])
    } finally {
      clearTimeout(timer)
      this.#closed.signal.removeEventListener('abort', stop)
    }
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}
