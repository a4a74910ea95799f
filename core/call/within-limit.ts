// What stages do when a call ends: the record of the call must not wait for ever.

/** Milliseconds for a settle handler, and for the release of a hold. */
const ENDING_MS = 10_000

/** The result of `work`; rejects if it has not ended after `ms` milliseconds, and then goes on without it. */
export async function withinLimit<T>(name: string, work: PromiseLike<T> | T, ms = ENDING_MS): Promise<T> {
  if (ms === Number.POSITIVE_INFINITY) return work
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${name} had not ended after ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([work, limit])
  } finally {
    clearTimeout(timer)
  }
}
