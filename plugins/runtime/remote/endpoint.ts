// HTTP client for the runtime's endpoint, with its own connection pool. TLS certificates are verified. Redirects are not
// followed, because only the policy may name the address.
import type { AnswerHeaders } from '@svc/core'
import { type Dispatcher, Pool } from 'undici'
import { EvaluationError } from '../evaluation/error.js'

/** About ten times the size of a decision with many obligations. */
const maxBytes = 64 * 1024
const maxConnections = 64

export interface EndpointResponse {
  readonly status: number
  readonly headers: AnswerHeaders
  /** The first 64 KiB of the body. */
  readonly bytes: Uint8Array
  /** Whether the body is longer. */
  readonly isCut: boolean
}

export class Endpoint {
  #pool: Pool
  #path: string
  /** Errors of connections that were never established. */
  #connectErrors = new WeakSet<Error>()

  /** Connecting has its own time-out, because a connection is shared and outlives the call that opened it. */
  constructor(url: URL, connectTimeoutMs: number) {
    this.#pool = new Pool(url.origin, {
      connections: maxConnections,
      pipelining: 1,
      connect: { timeout: connectTimeoutMs },
      // The signal of `post` limits the whole exchange.
      headersTimeout: 0,
      bodyTimeout: 0,
    })
    this.#pool.on('connectionError', (_origin, _targets, error) => this.#connectErrors.add(error))
    this.#path = `${url.pathname}${url.search}`
  }

  /**
   * Rejects with `EvaluationError`, without a cause: an HTTP client's error may hold the request and so the API key.
   */
  async post(headers: Record<string, string>, body: string, signal: AbortSignal): Promise<EndpointResponse> {
    try {
      const response = await this.#pool.request({ method: 'POST', path: this.#path, headers, body, signal })
      const { statusCode: status, body: stream } = response
      return { status, headers: usedHeaders(response), ...(await readBody(stream)) }
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
      const isConnectError = error instanceof Error && this.#connectErrors.has(error)
      const kind = isConnectError ? 'unreachable' : 'unavailable'
      throw new EvaluationError(`the runtime cannot be reached (${code})`, kind)
    }
  }

  async close(): Promise<void> {
    await this.#pool.destroy()
  }
}

/** Undici writes header names in lower case. */
function usedHeaders({ headers }: Dispatcher.ResponseData): AnswerHeaders {
  const retryAfter = headers['retry-after']
  return retryAfter === undefined ? {} : { 'retry-after': retryAfter }
}

async function readBody(
  body: Dispatcher.ResponseData['body'],
): Promise<Pick<EndpointResponse, 'bytes' | 'isCut'>> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body as AsyncIterable<Uint8Array>) {
    chunks.push(chunk)
    size += chunk.byteLength
    // Leaving the loop destroys the stream.
    if (size > maxBytes) break
  }
  return { bytes: Buffer.concat(chunks).subarray(0, maxBytes), isCut: size > maxBytes }
}
