// The two HTTP requests of an upload: a small JSON call with a deadline, and a long PUT with an idle timeout. Uses
// node:http, because a presigned PUT needs a Content-Length and a body streamed from disk.

import * as http from 'node:http'
import * as https from 'node:https'
import { pipeline, type Readable } from 'node:stream'

export interface HttpResponse {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly body: string
}

interface HttpRequest {
  readonly method: 'POST' | 'PUT'
  readonly headers: http.OutgoingHttpHeaders
  readonly body: string | Readable
  /** Time without progress after which the request is aborted, milliseconds. */
  readonly idleMs: number
  readonly signal: AbortSignal
}

/** Over a page of 1,000 objects whose keys have 1,024 bytes each, the longest of S3; a longer response aborts the request. */
const MAX_RESPONSE_BYTES = 2_097_152

export class HttpClient {
  readonly #plain = new http.Agent({ keepAlive: true })
  readonly #tls = new https.Agent({ keepAlive: true })

  /** The whole request within `timeoutMs`. Redirects are not followed, so that the key stays with this host. */
  async postJson(
    url: URL,
    authorization: string,
    body: object,
    { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
  ): Promise<HttpResponse> {
    const text = JSON.stringify(body)
    const headers = {
      authorization,
      accept: 'application/json',
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
    }
    const deadline = new AbortController()
    const timer = setTimeout(() => deadline.abort(new Error(`no response within ${timeoutMs} ms`)), timeoutMs)
    const stop = () => deadline.abort(signal.reason)
    signal.addEventListener('abort', stop, { once: true })
    if (signal.aborted) stop()
    try {
      return await this.#send(url, {
        method: 'POST',
        headers,
        body: text,
        idleMs: timeoutMs,
        signal: deadline.signal,
      })
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', stop)
    }
  }

  put(
    url: URL,
    headers: http.OutgoingHttpHeaders,
    body: Readable,
    { idleMs, signal }: { idleMs: number; signal: AbortSignal },
  ): Promise<HttpResponse> {
    return this.#send(url, { method: 'PUT', headers, body, idleMs, signal })
  }

  close(): void {
    this.#plain.destroy()
    this.#tls.destroy()
  }

  #send(url: URL, { method, headers, body, idleMs, signal }: HttpRequest): Promise<HttpResponse> {
    return new Promise((resolve, reject) => {
      const options = { method, headers, signal }
      const request =
        url.protocol === 'https:'
          ? https.request(url, { ...options, agent: this.#tls })
          : http.request(url, { ...options, agent: this.#plain })
      const fail = (error: Error) => reject(signal.aborted ? signal.reason : error)
      request.setTimeout(idleMs, () => request.destroy(new Error(`no progress for ${idleMs} ms`)))
      request.on('error', fail)
      request.once('response', (response) => {
        readResponse(response).then((parsed) => {
          resolve(parsed)
          // A store that responds before it has read the body has decided; the rest is not sent.
          if (!request.writableFinished) request.destroy()
        }, fail)
      })
      if (typeof body === 'string') request.end(body)
      else pipeline(body, request, (error) => error && fail(error))
    })
  }
}

async function readResponse(response: http.IncomingMessage): Promise<HttpResponse> {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of response as AsyncIterable<Buffer>) {
    bytes += piece.length
    if (bytes > MAX_RESPONSE_BYTES) throw new Error(`the response is over ${MAX_RESPONSE_BYTES} bytes`)
    pieces.push(piece)
  }
  const body = Buffer.concat(pieces).toString('utf8')
  return { status: response.statusCode ?? 0, headers: response.headers, body }
}
