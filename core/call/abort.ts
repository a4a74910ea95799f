// Waiting for work that an abort ends.

/** The part of AbortSignal that waiting code needs. */
export interface Abortable {
  readonly aborted: boolean
  readonly reason: unknown
  addEventListener(type: 'abort', listener: () => void): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/** Rejects with the reason when `signal` aborts, without waiting for the work to end. */
export async function abortable<T>(signal: Abortable, work: Promise<T>): Promise<T> {
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
