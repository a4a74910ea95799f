// Slows guesses of the admin token. The tokens of a network are compared in turns at a bounded rate, so that wrong ones delay the
// right one of the same network. One that would wait longer than MAX_WAIT_MS is refused without a comparison and may be sent
// again: refusing all tokens after some wrong ones would keep out the operator who wants to block the guesser. Networks beyond
// those that are remembered share the turns of one.
import { setTimeout as delay } from 'node:timers/promises'
import { type Clock, type Logger, type Meter, Refusal } from '@svc/core'
import { networkOf } from '../http/connections.js'

/** Tokens of one address that are compared without a wait. */
export const AT_ONCE = 10
/** Milliseconds between the turns of later ones. Random tokens of 64 bits withstand far more guesses (NIST SP 800-63B §5.1.2.2). */
export const TURN_MS = 10
/** A token that would wait longer for its turn is not compared. */
export const MAX_WAIT_MS = 2_000
const WINDOW_MS = 60_000
const MAX_NETWORKS = 10_000
/** The name of the window that new networks share while as many have windows as are remembered. */
const OTHERS = 'others'

interface Window {
  readonly network: string
  /** Monotonic milliseconds. */
  readonly end: number
  /** The turn that was taken last, in monotonic milliseconds. */
  turn: number
  wrong: number
  /** Attempts without a verdict. */
  running: number
}

interface GuessesOptions {
  readonly clock: Pick<Clock, 'monotonic'>
  readonly logger: Pick<Logger, 'warn'>
  readonly meter: Pick<Meter, 'count'>
  /** Resolves after the milliseconds. */
  readonly pause?: (ms: number) => Promise<unknown>
}

/** An attempt to use a token. One of `succeed` and `fail` must be called. */
export interface TokenAttempt {
  /** Why the token is not compared; undefined if it may be. */
  readonly refusal: Refusal | undefined
  /** The token was right, so the attempt takes no turn from others. */
  succeed(): void
  /** The token was wrong. */
  fail(): void
}

export class TokenGuesses {
  readonly #options: GuessesOptions
  readonly #maxNetworks: number
  /** The windows by their network, in the order of their ends. */
  readonly #windows = new Map<string, Window>()

  constructor(options: GuessesOptions, maxNetworks = MAX_NETWORKS) {
    this.#options = options
    this.#maxNetworks = maxNetworks
  }

  /** Resolves in the turn of the attempt. Never rejects. */
  async begin(address: string): Promise<TokenAttempt> {
    const { clock, meter, pause = delay } = this.#options
    const now = clock.monotonic()
    const window = this.#windowOf(networkOf(address), now)
    const turn = Math.max(window.turn, now - AT_ONCE * TURN_MS) + TURN_MS
    if (turn - now > MAX_WAIT_MS) {
      const fail = () => meter.count('svc_admin_guesses_refused_total')
      return { refusal: tooMany(), succeed: () => undefined, fail }
    }
    window.turn = turn
    window.running++
    if (turn > now) await pause(turn - now)
    return {
      refusal: undefined,
      succeed: () => {
        window.turn -= TURN_MS
        this.#settle(window)
      },
      fail: () => {
        this.#count(window)
        this.#settle(window)
      },
    }
  }

  #count(window: Window): void {
    const { logger, meter } = this.#options
    meter.count('svc_admin_wrong_tokens_total')
    window.wrong++
    if (window.wrong === AT_ONCE) {
      const { network: address, wrong } = window
      logger.warn({ address, wrong }, 'many wrong tokens on the admin listener')
    }
  }

  #settle(window: Window): void {
    window.running--
    const { network, wrong, running } = window
    if (wrong + running === 0 && this.#windows.get(network) === window) this.#windows.delete(network)
  }

  #windowOf(own: string, now: number): Window {
    for (const [oldest, { end }] of this.#windows) {
      if (now < end) break
      this.#windows.delete(oldest)
    }
    const network = this.#windows.has(own) || this.#windows.size < this.#maxNetworks ? own : OTHERS
    const known = this.#windows.get(network)
    if (known !== undefined) return known
    const window = { network, end: now + WINDOW_MS, turn: Number.NEGATIVE_INFINITY, wrong: 0, running: 0 }
    this.#windows.set(network, window)
    return window
  }
}

function tooMany(): Refusal {
  const message = 'Too many tokens from your address are waiting to be checked; try again in 1 s.'
  return new Refusal('RATE_LIMITED', message, { retryAfterSec: 1 })
}
