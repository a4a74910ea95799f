// Caches values that are read by reference, so that not every call reads a file or a vault.
import type { Clock } from '../plugin/tokens.js'

/** The result of `read`, which runs again after `ms` milliseconds, and after it has failed. */
export function cachedFor<T>(
  ms: number,
  clock: Pick<Clock, 'monotonic'>,
  read: () => Promise<T>,
): () => Promise<T> {
  let cached: { readonly value: Promise<T>; readonly until: number } | undefined
  return () => {
    const now = clock.monotonic()
    if (cached === undefined || now >= cached.until) {
      const started = { value: read(), until: now + ms }
      cached = started
      started.value.catch(() => {
        if (cached === started) cached = undefined
      })
    }
    return cached.value
  }
}
