// A part of a section that belongs to a later release: refused when present, never accepted and ignored.
import { z } from 'zod'

/** Rejects any value with `<what> is not available yet`; absent is fine. `what` begins the sentence. */
export function notYet(what: string): z.ZodOptional<z.ZodNever> {
  return z
    .never({ error: () => notAvailable(what) })
    .optional()
    .describe('Not available yet.')
}

export function notAvailable(what: string): string {
  return `${what} is not available yet; leave it out`
}
