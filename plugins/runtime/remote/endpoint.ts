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
  /** Empty unless the status is 200. */
  readonly bytes: Uint8Array
}

export class Endpoint {
  #pool: Pool
  #path: string

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
    this.#path = `${url.pathname}${url.search}`
  }

  /**
   * Rejects with `EvaluationError`, without a cause: an HTTP client's error may hold the request and so the API key.
   */
  async post(headers: Record<string, string>, body: string, signal: AbortSignal): Promise<EndpointResponse> {
    try {
      const response = await this.#pool.request({ method: 'POST', path: this.#path, headers, body, signal })
      const { statusCode: status, body: stream } = response
      if (status === 200) return { status, headers: usedHeaders(response), bytes: await readBody(stream) }
      await stream.dump({ limit: maxBytes, signal })
      return { status, headers: usedHeaders(response), bytes: new Uint8Array() }
    } catch (error) {
      if (error instanceof EvaluationError) throw error
      const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
      throw new EvaluationError(`the runtime cannot be reached (${code})`, 'unavailable')
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

async function readBody(body: Dispatcher.ResponseData['body']): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body as AsyncIterable<Uint8Array>) {
    size += chunk.byteLength
    if (size > maxBytes) {
      throw new EvaluationError(`the runtime's response exceeds ${maxBytes / 1024} KiB`, 'invalid')
    }
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}
