// Repeats requests of a restore: one that fails for a while must not end a restore of hours, which begins in an empty
// directory.

import { setTimeout as after } from 'node:timers/promises'
import { Backoff } from '../../upload/backoff.js'

const ATTEMPTS = 6
const DELAYS = { min: 500, max: 10_000 }

/** Rejects with the error of the last attempt, or with the first error that is not transient. */
export async function retrying<T>(
  request: () => Promise<T>,
  isTransient: (error: unknown) => boolean,
): Promise<T> {
  const backoff = new Backoff(Math.random, DELAYS)
  for (let attempt = 1; ; attempt++) {
    try {
      return await request()
    } catch (error) {
      if (attempt === ATTEMPTS || !isTransient(error)) throw error
    }
    await after(backoff.next())
  }
}
