// How an answer of events is written to a caller that may be silent, slow or gone.
import { slot } from '@svc/core'

export interface EventStreamRules {
  /** Silence after which the caller gets a comment, in milliseconds. */
  readonly keepAliveMs: number
  /** How long, and how many bytes, an answer is read for its record after the caller has left. */
  readonly abandonedMs: number
  readonly abandonedBytes: number
}

/** Filled where chunks are whole events, so that a comment may stand between them. */
export const eventStreamRules = slot<EventStreamRules>('svc-sdk/eventStreamRules')
