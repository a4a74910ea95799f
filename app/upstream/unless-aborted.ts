import type { Abortable } from '@svc/core'

/** Rejects with the reason when `signal` aborts, without waiting for work that goes on. */
export async function unlessAborted<T>(signal: Abortable, work: Promise<T>): Promise<T> {
  let stop = (): void => undefined
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop)
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
