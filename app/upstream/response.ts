// Requests to an upstream and its responses, as HTTP.

import { pipeline, Readable, type Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import {
  type Abortable,
  brand,
  type Call,
  hasBrand,
  isRefusal,
  type ResponseHeaders,
  type Sent,
} from '@svc/core'
import type { CallControl } from '@svc/core/pipeline'

/** A request to an upstream. */
export interface UpstreamRequest {
  readonly method: 'POST' | 'GET' | 'DELETE'
  /** Path and query below the origin of the target. */
  readonly path: string
  readonly headers: Record<string, string | string[]>
  readonly body?: string | Uint8Array | undefined
  /** The call that it sends; absent for requests of the gateway itself. */
  readonly call?: CallControl | undefined
  /** The call whose caller a request of the gateway itself is for, if it is for one. */
  readonly onBehalfOf?: Call | undefined
  /** Silence that is allowed before and within the response, in milliseconds, unless the policy sets the limit. */
  readonly responseTimeoutMs?: number | undefined
  /** Whether it goes over a connection of its own, as one that was kept open has just turned out to be closed. */
  readonly isOnNewConnection?: boolean | undefined
  /** Whether a response of events may be silent for as long as it takes. */
  readonly eventsMayPause?: boolean | undefined
  /** Aborts the exchange; its reason is thrown. Need not be a whole AbortSignal. */
  readonly signal: Abortable
}

/** The response of an upstream. */
export interface UpstreamResponse {
  readonly status: number
  /** Names in lower case. */
  readonly headers: ResponseHeaders
  /** The whole body if it is small and not an event stream; else its chunks as they come. */
  readonly body: Uint8Array | AsyncIterable<Uint8Array>
}

/** A response that holds a connection until it is read or discarded. */
export interface Discardable {
  discard(): Promise<void>
}

/** The upstream could not be reached, hung, or broke the protocol. */
export class UpstreamError extends Error {
  readonly [brand] = 'UpstreamError'
  override readonly name = 'UpstreamError'
  constructor(
    message: string,
    /** Whether bytes of the request may have left. */
    readonly sent: Sent,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}

const connectionLost: ReadonlySet<unknown> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

/** Whether the connection ended before the response was complete, as one does that the upstream closes when it is used. */
export function isConnectionLost({ cause }: UpstreamError): boolean {
  return cause instanceof Error && 'code' in cause && connectionLost.has(cause.code)
}

/** Whether `value` is an `UpstreamError` of any copy of this package. */
export function isUpstreamError(value: unknown): value is UpstreamError {
  return hasBrand(value, 'UpstreamError')
}

/** The codings of RFC 9110 §8.4.1: some servers and proxies compress although the request does not allow it. */
const decoders: ReadonlyMap<string, () => Transform> = new Map([
  ['gzip', createGunzip],
  ['x-gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
])

/**
 * The response with its body decoded as it is read, so that a reader's limit cuts a body that would become too large; the
 * same response if it has no coding, or one that is not known.
 */
export function decodedResponse(response: UpstreamResponse): UpstreamResponse {
  const { 'content-encoding': coding, ...headers } = response.headers
  const create = typeof coding === 'string' ? decoders.get(coding.trim().toLowerCase()) : undefined
  if (create === undefined) return response
  // It is that of the coded body.
  delete headers['content-length']
  return { ...response, headers, body: decoded(response.body, create()) }
}

function decoded(
  body: UpstreamResponse['body'],
  decoder: Transform,
): AsyncIterable<Uint8Array> & { destroy(): void } {
  const source = Readable.from(body instanceof Uint8Array ? [body] : body)
  // An error of either is that of the decoder, which its reader gets.
  pipeline(source, decoder, () => undefined)
  async function* pieces(): AsyncGenerator<Uint8Array> {
    try {
      yield* decoder as AsyncIterable<Uint8Array>
    } catch (cause) {
      if (isUpstreamError(cause) || isRefusal(cause)) throw cause
      throw new UpstreamError('The upstream sent a compressed response that cannot be decoded.', 'yes', {
        cause,
      })
    }
  }
  return { [Symbol.asyncIterator]: pieces, destroy: () => decoder.destroy() }
}
