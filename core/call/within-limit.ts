// Time limits on work that may never end.
import { type Abortable, abortable } from './abort.js'

/** Milliseconds for a settle handler, and for the release of a hold: the record of the call must not wait forever. */
const ENDING_MS = 10_000

/** The error of work that goes on after its time limit. */
export class TimeoutError extends Error {
  override readonly name = 'TimeoutError'
  readonly code = 'TIMEOUT'
}

/** The result of `work`; rejects with `TimeoutError` if it has not ended after `ms` milliseconds, and then goes on without it. */
export async function withinLimit<T>(name: string, work: PromiseLike<T> | T, ms = ENDING_MS): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new TimeoutError(`${name} had not ended after ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([work, limit])
  } finally {
    clearTimeout(timer)
  }
}

/**
 * The result of `work`. Rejects with `error` after `ms` milliseconds, or with the reason of `stop` when it aborts, even if
 * the work ignores its signal and goes on.
 */
export async function withTimeout<T>(
  { ms, error, stop }: { readonly ms: number; readonly error: Error; readonly stop?: Abortable },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController()
  const { signal } = controller
  const onStop = (): void => controller.abort(stop?.reason)
  const timer = setTimeout(() => controller.abort(error), ms)
  stop?.addEventListener('abort', onStop)
  if (stop?.aborted) onStop()
  try {
    signal.throwIfAborted()
    return await abortable(signal, work(signal))
  } finally {
    clearTimeout(timer)
    stop?.removeEventListener('abort', onStop)
  }
}
