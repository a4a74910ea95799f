// The handlers that run when a call has settled.
import { type ErrorCode, isRefusal } from './errors.js'
import { isPending } from './maybe-promise.js'
import type { Outcome, Sent } from './outcome.js'
import { withinLimit } from './within-limit.js'

/** How a call ended. */
export interface Settlement {
  readonly outcome: Outcome
  /** HTTP status of the response over the invoke protocol. */
  readonly status: number
  readonly sent: Sent
  /** Bytes of the response's body. */
  readonly bytes: number
  /** SHA-256, hex, of the output; null without one. */
  readonly digest: string | null
  readonly error: ErrorCode | null
}

export type SettleHandler = (settlement: Settlement) => Promise<void> | void

interface Placed {
  readonly handler: SettleHandler
  readonly limitMs: number | undefined
}

const done = Promise.resolve()

interface Failure {
  readonly error: unknown
}

export class SettleHandlers {
  #handlers: Placed[] = []

  /** Handlers run in reverse order. */
  addOuter(handler: SettleHandler, limitMs?: number): void {
    this.#handlers.push({ handler, limitMs })
  }

  /** `handler` runs after all handlers that are registered now. */
  addLast(handler: SettleHandler): void {
    this.#handlers.unshift({ handler, limitMs: undefined })
  }

  /**
   * Runs every handler once, even if another fails or does not end; after the first failure the settlement's error is its
   * code. Rejects with that failure.
   */
  run(settlement: Settlement): Promise<void> {
    const handlers = this.#handlers
    this.#handlers = []
    return runFrom(handlers, settlement, undefined)
  }
}

/** Runs the handlers from the last one. `first` is the first failure so far. */
function runFrom(handlers: Placed[], settlement: Settlement, first: Failure | undefined): Promise<void> {
  let failure = first
  for (let placed = handlers.pop(); placed !== undefined; placed = handlers.pop()) {
    const { handler, limitMs } = placed
    try {
      const ended = handler(failure === undefined ? settlement : withCodeOf(failure, settlement))
      if (isPending(ended)) {
        return withinLimit('a settle handler', ended, limitMs).then(
          () => runFrom(handlers, settlement, failure),
          (error: unknown) => runFrom(handlers, settlement, failure ?? { error }),
        )
      }
    } catch (error) {
      failure ??= { error }
    }
  }
  return failure === undefined ? done : Promise.reject(failure.error)
}

function withCodeOf({ error }: Failure, settlement: Settlement): Settlement {
  return { ...settlement, error: isRefusal(error) ? error.code : 'INTERNAL' }
}
