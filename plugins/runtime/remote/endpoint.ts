// One HTTP exchange with the runtime, over connections of its own that are kept between calls. TLS is verified,
// redirects are not followed: the policy names the one address.
import type { AnswerHeaders } from '@svc/core'
import { type Dispatcher, Pool } from 'undici'
import { EvaluationFault } from '../fault.js'

/** A verdict with all its obligations is a tenth of this. */
const maxBytes = 64 * 1024
const connections = 64

export interface EndpointAnswer {
  readonly status: number
  readonly headers: AnswerHeaders
  /** Empty for any status but 200. */
  readonly bytes: Uint8Array
}

export class Endpoint {
  #pool: Pool
  #path: string

  /** `connectTimeoutMs` of its own, as a connection outlives the call that began it. */
  constructor(url: URL, connectTimeoutMs: number) {
    this.#pool = new Pool(url.origin, {
      connections,
      pipelining: 1,
      connect: { timeout: connectTimeoutMs },
      // The signal of the call bounds the whole exchange.
      headersTimeout: 0,
      bodyTimeout: 0,
    })
    this.#path = `${url.pathname}${url.search}`
  }

  /**
   * Rejects with `EvaluationFault`, or with whatever the signal made of the exchange. Causes are left out: what an
   * HTTP client knows of a request holds its key.
   */
  async post(headers: Record<string, string>, body: string, signal: AbortSignal): Promise<EndpointAnswer> {
    try {
      const answer = await this.#pool.request({ method: 'POST', path: this.#path, headers, body, signal })
      const { statusCode: status } = answer
      if (status === 200) return { status, headers: known(answer), bytes: await bytesOf(answer.body) }
      await answer.body.dump({ limit: maxBytes, signal })
      return { status, headers: known(answer), bytes: new Uint8Array() }
    } catch (fault) {
      if (fault instanceof EvaluationFault) throw fault
      const code = fault instanceof Error && 'code' in fault ? String(fault.code) : 'unknown fault'
      throw new EvaluationFault(`the runtime cannot be reached (${code})`, 'down')
    }
  }

  async close(): Promise<void> {
    await this.#pool.destroy()
  }
}

/** Undici names headers in lower case. */
function known({ headers }: Dispatcher.ResponseData): AnswerHeaders {
  const retryAfter = headers['retry-after']
  return retryAfter === undefined ? {} : { 'retry-after': retryAfter }
}

async function bytesOf(body: Dispatcher.ResponseData['body']): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of body as AsyncIterable<Uint8Array>) {
    size += piece.byteLength
    if (size > maxBytes) {
      throw new EvaluationFault(`the runtime answered with more than ${maxBytes / 1024} KiB`, 'unusable')
    }
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}
