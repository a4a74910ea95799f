// The two HTTP exchanges of an upload: a small JSON call that must end in time, and a long PUT that must
// keep moving. node:http, since a presigned PUT needs a Content-Length and a body streamed from disk.

import * as http from 'node:http'
import * as https from 'node:https'
import { pipeline, type Readable } from 'node:stream'

export interface HttpAnswer {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly body: string
}

interface Exchange {
  readonly method: 'POST' | 'PUT'
  readonly headers: http.OutgoingHttpHeaders
  readonly body: string | Readable
  /** Given up when nothing has moved for so long, milliseconds. */
  readonly idleMs: number
  readonly signal: AbortSignal
}

/** More than an answer of either side can be; a longer one breaks the exchange off. */
const MAX_ANSWER_BYTES = 262_144

export class HttpClient {
  readonly #plain = new http.Agent({ keepAlive: true })
  readonly #tls = new https.Agent({ keepAlive: true })

  /** The whole exchange within `timeoutMs`. Redirects are answers like others: a key must not follow one. */
  async postJson(
    url: URL,
    authorization: string,
    body: object,
    { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
  ): Promise<HttpAnswer> {
    const text = JSON.stringify(body)
    const headers = {
      authorization,
      accept: 'application/json',
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
    }
    const limit = new AbortController()
    const timer = setTimeout(() => limit.abort(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs)
    const stop = () => limit.abort(signal.reason)
    signal.addEventListener('abort', stop, { once: true })
    if (signal.aborted) stop()
    try {
      return await this.#exchange(url, {
        method: 'POST',
        headers,
        body: text,
        idleMs: timeoutMs,
        signal: limit.signal,
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
  ): Promise<HttpAnswer> {
    return this.#exchange(url, { method: 'PUT', headers, body, idleMs, signal })
  }

  close(): void {
    this.#plain.destroy()
    this.#tls.destroy()
  }

  #exchange(url: URL, { method, headers, body, idleMs, signal }: Exchange): Promise<HttpAnswer> {
    return new Promise((resolve, reject) => {
      const options = { method, headers, signal }
      const request =
        url.protocol === 'https:'
          ? https.request(url, { ...options, agent: this.#tls })
          : http.request(url, { ...options, agent: this.#plain })
      const fail = (error: Error) => reject(signal.aborted ? signal.reason : error)
      request.setTimeout(idleMs, () => request.destroy(new Error(`nothing moved for ${idleMs} ms`)))
      request.on('error', fail)
      request.once('response', (response) => {
        read(response).then((answer) => {
          resolve(answer)
          // A store that answers before it has read the body has decided; the rest need not be sent.
          if (!request.writableFinished) request.destroy()
        }, fail)
      })
      if (typeof body === 'string') request.end(body)
      else pipeline(body, request, (error) => error && fail(error))
    })
  }
}

async function read(response: http.IncomingMessage): Promise<HttpAnswer> {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of response as AsyncIterable<Buffer>) {
    bytes += piece.length
    if (bytes > MAX_ANSWER_BYTES) throw new Error(`the answer is over ${MAX_ANSWER_BYTES} bytes`)
    pieces.push(piece)
  }
  const body = Buffer.concat(pieces).toString('utf8')
  return { status: response.statusCode ?? 0, headers: response.headers, body }
}
