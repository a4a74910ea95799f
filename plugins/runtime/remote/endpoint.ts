// The runtime's endpoint: an HTTP client with its own connections.
import { HttpClient, HttpError, type HttpResponse } from '@svc/core/http-client'
import { messageOf } from '@svc/core/json'
import { EvaluationError } from '../evaluation/error.js'

/** About ten times the size of a decision with many obligations. */
const MAX_RESPONSE_BYTES = 64 * 1024
const MAX_CONNECTIONS = 64

export class Endpoint {
  #client: HttpClient
  #url: URL

  /** Connecting has its own time-out, because a connection is shared and outlives the call that opened it. */
  constructor(url: URL, connectTimeoutMs: number) {
    this.#client = new HttpClient({ connectTimeoutMs, connections: MAX_CONNECTIONS, keepAlive: true })
    this.#url = url
  }

  /**
   * The response with the first 64 KiB of its body. Rejects with `EvaluationError`, without a cause: an HTTP client's error
   * may hold the request and so the API key.
   */
  async post(headers: Record<string, string>, body: string, signal: AbortSignal): Promise<HttpResponse> {
    try {
      return await this.#client.send(this.#url, { headers, body, signal, maxBytes: MAX_RESPONSE_BYTES })
    } catch (error) {
      const kind = error instanceof HttpError && error.isConnectError ? 'unreachable' : 'unavailable'
      const code = error instanceof HttpError ? error.code : messageOf(error)
      throw new EvaluationError(`the runtime cannot be reached (${code})`, kind)
    }
  }

  close(): Promise<void> {
    return this.#client.close()
  }
}
