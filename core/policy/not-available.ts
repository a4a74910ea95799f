// Keys of a later release: refused when present, never accepted and ignored.
import { z } from 'zod'

/** Optional, and rejects any value with `<what> is not available yet`. `what` is the start of the sentence. */
export function notAvailable(what: string): z.ZodOptional<z.ZodNever> {
  return z
    .never({ error: () => notAvailableMessage(what) })
    .optional()
    .describe('Not available yet.')
}

export function notAvailableMessage(what: string): string {
  return `${what} is not available yet; leave it out`
}
