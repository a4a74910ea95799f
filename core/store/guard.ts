// Wraps the operations of a store: with a deadline, and one error for every failure.
import { Refusal } from '../call/errors.js'
import { after, attempt, isPending } from '../call/maybe-promise.js'
import { TimeoutError, withinLimit } from '../call/within-limit.js'
import { messageOf } from '../json/message.js'
import type { StoreLifecycle } from '../plugin/store-lifecycle.js'
import type { Clock, Logger, Meter } from '../plugin/tokens.js'

type Method = (...args: never[]) => unknown

/** Reverts an operation whose result arrived after the deadline, because it was reported as failed. */
type Undo<T, F> = F extends Method
  ? (store: T, result: Awaited<ReturnType<F>>, ...args: Parameters<F>) => unknown
  : never

export interface GuardOptions<T> {
  /** The name of the store, for example `quota store`, whose metrics begin with `svc_quota_store`. */
  readonly name: string
  readonly timeoutMs: number
  /** The methods that are guarded; others cannot be called. One that the store does not have is skipped. */
  readonly operations: readonly Exclude<keyof T & string, keyof StoreLifecycle>[]
  /** By operation. */
  readonly undo?: { readonly [K in keyof T]?: Undo<T, T[K]> }
  /** The effect of a failure on calls, for the log. */
  readonly whileDown: string
}

interface Observers {
  readonly clock: Clock
  readonly logger: Logger | undefined
  readonly meter: Meter | undefined
}

/** Milliseconds between two log lines about a failing store. */
const LOG_INTERVAL_MS = 10_000
/** How long the last failure is a warning, unless an operation succeeds, milliseconds. */
const WARNING_MS = 60_000

/**
 * The store with every operation guarded. A failed operation rejects with the `Refusal` `STORE_UNAVAILABLE`, whose cause is the
 * error, is counted and logged, and is a warning until one succeeds: a store that responds may refuse every operation, as a Redis
 * that is full does. An operation of a store in this process that returns without a promise is guarded without one.
 *
 * Others have a deadline: a store that hangs must not block a call, nor make each call wait for it. After a timeout, one operation
 * per `timeoutMs` is tried until the store responds to one, even late.
 */
export function guarded<T extends StoreLifecycle>(
  store: T,
  options: GuardOptions<T>,
  { clock, logger, meter }: Observers,
): T {
  const { name, timeoutMs, operations, whileDown } = options
  const metrics = `svc_${name.replaceAll(' ', '_')}`
  let [failures, logAt] = [0, Number.NEGATIVE_INFINITY]
  let last: { readonly message: string; readonly at: number } | undefined
  let [isHanging, retryAt] = [false, 0]

  const refuse = (cause: unknown): never => {
    const at = clock.monotonic()
    failures++
    last = { message: messageOf(cause), at }
    meter?.count(`${metrics}_failures_total`)
    if (at >= logAt) {
      logAt = at + LOG_INTERVAL_MS
      logger?.warn({ error: last.message, failures }, `the ${name} fails: ${whileDown}`)
      failures = 0
    }
    throw new Refusal('STORE_UNAVAILABLE', `The ${name} is not available.`, { cause })
  }
  const succeeded = (result: unknown): unknown => {
    last = undefined
    return result
  }
  /** Rejects at the deadline, or at once while the store hangs. `onLate` gets a result that arrives after the deadline. */
  const inTime = async (run: () => unknown, onLate: (result: unknown) => void): Promise<unknown> => {
    const began = clock.monotonic()
    if (isHanging && began < retryAt) throw new Error(`the ${name} does not respond`)
    retryAt = began + timeoutMs
    const result = (async () => run())().finally(() => {
      isHanging = false
    })
    try {
      return await withinLimit(`the operation of the ${name}`, result, timeoutMs)
    } catch (error) {
      if (!(error instanceof TimeoutError)) throw error
      isHanging = true
      // A late error is dropped, as the timeout is reported.
      result.then(onLate, () => undefined)
      throw error
    } finally {
      meter?.observe?.(`${metrics}_duration_seconds`, (clock.monotonic() - began) / 1000)
    }
  }

  const own: T = Object.create(null)
  for (const key of operations) {
    const method: unknown = Reflect.get(store, key)
    const undo: unknown = Reflect.get(options.undo ?? {}, key)
    if (typeof method !== 'function') continue
    Reflect.set(own, key, (...args: unknown[]): unknown => {
      if (store.inProcess === true) {
        try {
          const result: unknown = Reflect.apply(method, store, args)
          return isPending(result) ? result.then(succeeded).catch(refuse) : succeeded(result)
        } catch (cause) {
          return refuse(cause)
        }
      }
      const run = () => after(Reflect.apply(method, store, args), succeeded)
      // A failed undo is counted and logged as a failure of the store.
      const undoLate = (late: unknown) =>
        void attempt(
          () => typeof undo === 'function' && undo(own, late, ...args),
          () => undefined,
        )
      return inTime(run, undoLate).catch(refuse)
    })
  }
  const ready = () => (isHanging ? `the ${name} does not respond` : store.ready?.())
  const warning = () => {
    if (last === undefined || clock.monotonic() - last.at >= WARNING_MS) return store.warning?.()
    return `the ${name} fails: ${last.message}; ${whileDown}`
  }
  const time = store.now === undefined ? {} : { now: () => store.now?.() }
  return Object.assign(own, { ready, warning }, time)
}
