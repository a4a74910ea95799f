// Creates the findings of this section.
import type { Finding } from '@svc/core'

export function finding(reason: string, detail: string): Finding {
  return { reason, stage: 'security', level: 'gateway', detail }
}

/** A finding about the response, or about how long it takes. */
export function lateFinding(reason: string, detail: string): Finding {
  return { ...finding(reason, detail), isLate: true }
}
