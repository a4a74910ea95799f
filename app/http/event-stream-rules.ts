// How a response of events is written to a caller that may be silent, slow or gone.
import { slot } from '@svc/core'
import { EVENT_STREAM_TYPE } from './media-type.js'

/** Of a stream that the gateway begins itself: nothing on the way may keep its events, or change them. */
export const eventStreamHeaders = {
  'content-type': EVENT_STREAM_TYPE,
  'cache-control': 'no-cache, no-transform',
} as const

export interface EventStreamRules {
  /** Silence after which the caller gets a comment, in milliseconds. */
  readonly keepAliveMs: number
  /** How long, and how many bytes, a response is read for its record after the caller has left. */
  readonly abandonedMs: number
  readonly abandonedBytes: number
}

/** Filled where chunks are whole events, so that a comment may stand between them. */
export const eventStreamRules = slot<EventStreamRules>('svc-sdk/eventStreamRules')
