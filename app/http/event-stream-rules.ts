// Rules for writing a response of events to a caller that may be silent, slow or gone.
import { slot } from '@svc/core'
import { EVENT_STREAM_TYPE } from './media-type.js'

/** Keeps proxies such as nginx from buffering a stream, by which its events would come at its end. */
export const unbuffered = { 'x-accel-buffering': 'no' } as const

/** Headers of a stream that the gateway begins itself: they forbid proxies to buffer or change its events. */
export const eventStreamHeaders = {
  'content-type': EVENT_STREAM_TYPE,
  'cache-control': 'no-cache, no-transform',
  ...unbuffered,
} as const

export interface EventStreamRules {
  /** Silence after which the caller gets a comment, in milliseconds. */
  readonly keepAliveMs: number
  /** Time and bytes for which a response is read for its record after the caller has left. */
  readonly abandonedMs: number
  readonly abandonedBytes: number
}

/** Set if chunks are whole events, so that a comment may stand between them. */
export const eventStreamRules = slot<EventStreamRules>('svc-sdk/eventStreamRules')
