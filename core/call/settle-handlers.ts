// The handlers that run when a call has settled.
import type { SettleHandler, Settlement } from './call.js'
import { isRefusal } from './errors.js'
import { isPending } from './maybe-promise.js'
import { withinLimit } from './within-limit.js'

/** A handler, with its time limit if it has one of its own. */
export type PlacedHandler = SettleHandler | { readonly handler: SettleHandler; readonly limitMs: number }

interface Failure {
  readonly error: unknown
}

const done = Promise.resolve()

/**
 * Runs every handler, from the last one, even if another fails or does not end; after the first failure the settlement's
 * error is its code. Rejects with that failure. `first` is the first failure so far.
 */
export function runSettleHandlers(
  handlers: PlacedHandler[],
  settlement: Settlement,
  first: Failure | undefined,
): Promise<void> {
  let failure = first
  for (let placed = handlers.pop(); placed !== undefined; placed = handlers.pop()) {
    const handler = typeof placed === 'function' ? placed : placed.handler
    const limitMs = typeof placed === 'function' ? undefined : placed.limitMs
    try {
      const ended = handler(failure === undefined ? settlement : withCodeOf(failure, settlement))
      if (ended !== undefined && isPending(ended)) {
        const limited =
          limitMs === Number.POSITIVE_INFINITY ? ended : withinLimit('a settle handler', ended, limitMs)
        return limited.then(
          () => runSettleHandlers(handlers, settlement, failure),
          (error: unknown) => runSettleHandlers(handlers, settlement, failure ?? { error }),
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
