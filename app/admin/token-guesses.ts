// Bounds how many wrong tokens a client of the admin listener may try. It bounds each address by itself, so that nobody
// keeps the right token out from elsewhere; while many addresses try, each has fewer attempts.
import { createHmac, randomBytes } from 'node:crypto'
import { type Clock, type Logger, type Meter, Refusal } from '@svc/core'
import { networkOf } from '../http/connections.js'

const WINDOW_MS = 60_000
/** Different wrong tokens of one address in a window. */
export const MAX_OF_ONE = 10
/** Different wrong tokens of all addresses in a window; then each address has one. */
export const MAX_OF_ALL = 100
const MAX_NETWORKS = 10_000
/** An attempt that has waited for others for so long is refused. */
const MAX_WAIT_MS = 10_000
/** The name of the window that new networks share while as many have windows as are remembered. */
const OTHERS = 'others'

interface Window {
  readonly network: string
  /** Monotonic milliseconds. */
  readonly end: number
  /** Keyed hashes of wrong tokens: one that is tried again is not a new guess. */
  readonly wrong: Set<string>
  /** Attempts without a verdict. */
  running: number
}

interface Totals {
  readonly end: number
  wrong: number
  running: number
}

interface GuessesParts {
  readonly clock: Pick<Clock, 'monotonic'>
  readonly logger: Pick<Logger, 'warn'>
  readonly meter: Pick<Meter, 'count'>
}

/** An attempt to use a token. One of `succeed` and `fail` must be called. */
export interface TokenAttempt {
  /** Why the token is not compared; undefined if it may be. */
  readonly refusal: Refusal | undefined
  /** The token was right, so the attempt does not count. */
  succeed(): void
  /** The token was wrong. */
  fail(): void
}

export class TokenGuesses {
  readonly #parts: GuessesParts
  readonly #maxNetworks: number
  readonly #key = randomBytes(32)
  /** Those that end first are first. */
  readonly #windows = new Map<string, Window>()
  #all: Totals = { end: 0, wrong: 0, running: 0 }
  #waiting: (() => void)[] = []

  constructor(parts: GuessesParts, maxNetworks = MAX_NETWORKS) {
    this.#parts = parts
    this.#maxNetworks = maxNetworks
  }

  /**
   * Wrong tokens refuse an attempt at once. If there is no place because of attempts without a verdict, it waits for
   * one of these, which may be right. Never rejects.
   */
  async begin(address: string, token: string): Promise<TokenAttempt> {
    const { clock, meter } = this.#parts
    const hash = createHmac('sha256', this.#key).update(token).digest('base64').slice(0, 16)
    const begun = clock.monotonic()
    for (;;) {
      const now = clock.monotonic()
      const window = this.#windowOf(networkOf(address), now)
      if (now >= this.#all.end) this.#all = { end: now + WINDOW_MS, wrong: 0, running: 0 }
      const all = this.#all
      if (window.wrong.has(hash)) return repeated(meter)
      if (window.wrong.size >= maxOf(all.wrong)) return refused(wrongTokens(window.end - now), meter)
      if (window.wrong.size + window.running < maxOf(all.wrong + all.running))
        return this.#admit(window, all, hash)
      if (now - begun > MAX_WAIT_MS) return refused(tooManyChecks(), meter)
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    }
  }

  #admit(window: Window, all: Totals, hash: string): TokenAttempt {
    const { logger, meter } = this.#parts
    window.running++
    all.running++
    return {
      refusal: undefined,
      succeed: () => this.#settle(window, all),
      fail: () => {
        meter.count('svc_admin_wrong_tokens_total')
        const { network: address, wrong } = window
        if (!wrong.has(hash)) {
          wrong.add(hash)
          all.wrong++
          if (wrong.size >= maxOf(all.wrong))
            logger.warn(
              { address, tried: wrong.size },
              'wrong tokens on the admin listener: more are refused',
            )
        }
        this.#settle(window, all)
      },
    }
  }

  #settle(window: Window, all: Totals): void {
    window.running--
    all.running--
    const { network, wrong, running } = window
    if (wrong.size + running === 0 && this.#windows.get(network) === window) this.#windows.delete(network)
    const waiting = this.#waiting
    this.#waiting = []
    for (const wake of waiting) wake()
  }

  #windowOf(own: string, now: number): Window {
    for (const [oldest, { end }] of this.#windows) {
      if (now < end) break
      this.#windows.delete(oldest)
    }
    const network = this.#windows.has(own) || this.#windows.size < this.#maxNetworks ? own : OTHERS
    const known = this.#windows.get(network)
    if (known !== undefined) return known
    const window = { network, end: now + WINDOW_MS, wrong: new Set<string>(), running: 0 }
    this.#windows.set(network, window)
    return window
  }
}

/** Places of one address, by the places that are taken of those of all. */
function maxOf(taken: number): number {
  return taken >= MAX_OF_ALL ? 1 : MAX_OF_ONE
}

function repeated(meter: GuessesParts['meter']): TokenAttempt {
  const fail = () => meter.count('svc_admin_wrong_tokens_total')
  return { refusal: undefined, succeed: () => undefined, fail }
}

function refused(refusal: Refusal, meter: GuessesParts['meter']): TokenAttempt {
  const fail = () => meter.count('svc_admin_guesses_refused_total')
  return { refusal, succeed: () => undefined, fail }
}

function wrongTokens(ms: number): Refusal {
  const retryAfterSec = Math.max(1, Math.ceil(ms / 1000))
  const message = `Too many wrong tokens came from your address; try again in ${retryAfterSec} s.`
  return new Refusal('RATE_LIMITED', message, { retryAfterSec })
}

function tooManyChecks(): Refusal {
  const message = 'Too many tokens from your address are being checked; try again in 1 s.'
  return new Refusal('RATE_LIMITED', message, { retryAfterSec: 1 })
}
