// What runs when a call has settled.
import type { Settlement } from './call.js'
import { isRefusal } from './errors.js'
import { isPending } from './maybe-promise.js'

export type SettleHandler = (settlement: Settlement) => Promise<void> | void

const done = Promise.resolve()

interface Failure {
  readonly fault: unknown
}

export class SettleHandlers {
  #handlers: SettleHandler[] = []

  /** Handlers run in reverse order. */
  addOuter(handler: SettleHandler): void {
    this.#handlers.push(handler)
  }

  /** `handler` runs after all others that are known now. */
  addLast(handler: SettleHandler): void {
    this.#handlers.unshift(handler)
  }

  /**
   * Runs every handler once, even if another fails; after the first failure the settlement's error is its code. Rejects
   * with that failure.
   */
  run(settlement: Settlement): Promise<void> {
    return runFrom(this.#handlers.splice(0), settlement, undefined)
  }
}

/** Runs the handlers from the last one. `first` is the first failure so far. */
function runFrom(
  handlers: SettleHandler[],
  settlement: Settlement,
  first: Failure | undefined,
): Promise<void> {
  let failure = first
  for (let handler = handlers.pop(); handler !== undefined; handler = handlers.pop()) {
    try {
      const ended = handler(failure === undefined ? settlement : withCodeOf(failure, settlement))
      if (isPending(ended)) {
        return Promise.resolve(ended).then(
          () => runFrom(handlers, settlement, failure),
          (fault: unknown) => runFrom(handlers, settlement, failure ?? { fault }),
        )
      }
    } catch (fault) {
      failure ??= { fault }
    }
  }
  return failure === undefined ? done : Promise.reject(failure.fault)
}

function withCodeOf({ fault }: Failure, settlement: Settlement): Settlement {
  return { ...settlement, error: isRefusal(fault) ? fault.code : 'INTERNAL' }
}
