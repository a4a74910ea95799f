// The interface through which calls are sent upstream. Users may bind their own.
import { type Token, token } from '@svc/core'
import type { UpstreamRequest, UpstreamResponse } from './response.js'

/** Sends requests to upstreams. */
export interface UpstreamDispatcher {
  /**
   * Sends one request to the origin of `target`, never twice. Rejects with `UpstreamError`, or with the
   * reason of the signal. `onSent` runs directly before the first byte may leave.
   */
  send(target: URL, request: UpstreamRequest, onSent: () => void): Promise<UpstreamResponse>
  /** Closes all connections. */
  close(): Promise<void>
}

/** The token of the dispatcher. */
export const upstreamDispatcher: Token<UpstreamDispatcher> = token('UpstreamDispatcher')
