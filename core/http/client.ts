// The HTTP client for the requests of the gateway itself: key sets, tokens, DID documents, decisions, webhooks, uploads. A
// request is one exchange within time limits, its response is read whole up to a limit, and redirects are not followed: only
// the policy names addresses. Calls to tool servers are streamed, by a client of their own.
import type { IncomingHttpHeaders } from 'node:http'
import type { LookupFunction } from 'node:net'
import { Readable } from 'node:stream'
import type { Agent } from 'undici'
import { messageOf } from '../json/message.js'
import { type BoundedBody, readBounded } from './bounded-body.js'
import { classifyHost } from './host.js'
import { publicLookup } from './lookup.js'

interface HttpClientOptions {
  /** `public` refuses addresses that are private, and names that have one (`EPRIVATE`). Default: `any`. */
  readonly addresses?: 'any' | 'public'
  /** PEM, in place of the certificate authorities of Node. */
  readonly ca?: string | undefined
  /** The certificate of this client and its key, PEM. */
  readonly cert?: string | undefined
  readonly key?: string | undefined
  /** Time limit of a connection, in milliseconds. Default: that of the exchange alone. */
  readonly connectTimeoutMs?: number
  /** Connections to one origin. Default: any number. */
  readonly connections?: number
  /** Whether connections are kept for the next exchange. Default: false, as rare requests find them stale. */
  readonly keepAlive?: boolean
}

export interface HttpExchange {
  /** Default: GET, with a body POST. */
  readonly method?: 'GET' | 'HEAD' | 'POST' | 'PUT'
  readonly headers?: Readonly<Record<string, string>>
  /** A streamed one needs the header `content-length`; the next piece is taken once the one before is on its way. */
  readonly body?: string | AsyncIterable<Uint8Array>
  /** Time limit of the exchange, the body included, in milliseconds. */
  readonly timeoutMs?: number
  /** Time limit of each piece of a streamed body and of the response, in milliseconds. */
  readonly idleMs?: number
  readonly signal?: AbortSignal
  /** The largest body that is read; the rest is cut off. */
  readonly maxBytes: number
}

export interface HttpResponse extends BoundedBody {
  readonly status: number
  readonly headers: IncomingHttpHeaders
}

/** The error of an exchange without a response. The message contains nothing of the request. */
export class HttpError extends Error {
  override readonly name = 'HttpError'
  /** `TIMEOUT`, `EPRIVATE`, or the code of the system or of undici. */
  readonly code: string
  /** Whether no connection could be made, so that nothing was sent. */
  readonly isConnectError: boolean

  constructor(code: string, message: string, isConnectError: boolean) {
    super(message)
    this.code = code
    this.isConnectError = isConnectError
  }
}

export class HttpClient {
  #options: HttpClientOptions
  #agent: Agent | undefined
  #connectErrors = new WeakSet<Error>()

  constructor(options: HttpClientOptions = {}) {
    this.#options = options
  }

  /** Rejects with `HttpError`, or with the reason of the signal. */
  async send(url: URL | string, exchange: HttpExchange): Promise<HttpResponse> {
    const { origin, pathname, search, hostname } = new URL(url)
    const { timeoutMs, idleMs, maxBytes, headers = {} } = exchange
    const { method = exchange.body === undefined ? 'GET' : 'POST' } = exchange
    const host = hostname.replace(/^\[|\]$/g, '')
    if (this.#options.addresses === 'public' && classifyHost(host) !== 'public') {
      throw new HttpError('EPRIVATE', `${host} is not a public host`, true)
    }
    const timeout = timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs)
    const idle = new IdleLimit(idleMs)
    const signals = [exchange.signal, timeout, idle.signal].filter((signal) => signal !== undefined)
    const body =
      exchange.body === undefined || typeof exchange.body === 'string'
        ? exchange.body
        : Readable.from(idle.watch(exchange.body), { objectMode: false })
    try {
      const agent = this.#agent ?? (await this.#start())
      const response = await agent.request({
        origin,
        path: `${pathname}${search}`,
        method,
        headers,
        reset: this.#options.keepAlive !== true,
        ...(body === undefined ? {} : { body }),
        ...(signals.length === 0 ? {} : { signal: AbortSignal.any(signals) }),
      })
      const { statusCode: status } = response
      return {
        status,
        headers: response.headers,
        ...(await readBounded(idle.watch(response.body), maxBytes)),
      }
    } catch (error) {
      exchange.signal?.throwIfAborted()
      const isConnectError = error instanceof Error && this.#connectErrors.has(error)
      if (timeout?.aborted) {
        throw new HttpError('TIMEOUT', `no complete response within ${timeoutMs} ms`, isConnectError)
      }
      if (idle.signal?.aborted) throw new HttpError('TIMEOUT', `no progress for ${idleMs} ms`, isConnectError)
      const code = error instanceof Error && 'code' in error ? String(error.code) : 'UNKNOWN'
      throw new HttpError(code, messageOf(error) || code, isConnectError)
    } finally {
      idle.stop()
      // A server that responds before it has read the body has decided; the rest is not sent.
      if (body instanceof Readable) body.destroy()
    }
  }

  /** Ends its connections, and the exchanges that run. */
  async close(): Promise<void> {
    const agent = this.#agent
    this.#agent = undefined
    await agent?.destroy()
  }

  async #start(): Promise<Agent> {
    // Imported here, because it is large, and many processes send no request.
    const { Agent } = await import('undici')
    if (this.#agent === undefined) {
      const { addresses, ca, cert, key, connections, connectTimeoutMs } = this.#options
      const lookup: { lookup?: LookupFunction } = addresses === 'public' ? { lookup: publicLookup } : {}
      this.#agent = new Agent({
        pipelining: 1,
        // The limit of the exchange also applies to its parts.
        headersTimeout: 0,
        bodyTimeout: 0,
        ...(connections === undefined ? {} : { connections }),
        connect: {
          ...lookup,
          ...(connectTimeoutMs === undefined ? {} : { timeout: connectTimeoutMs }),
          ...(ca === undefined ? {} : { ca }),
          ...(cert === undefined ? {} : { cert }),
          ...(key === undefined ? {} : { key }),
        },
      })
      this.#agent.on('connectionError', (_origin, _targets, error) => this.#connectErrors.add(error))
    }
    return this.#agent
  }
}

/** Aborts when no piece of a body passes for `ms` milliseconds; never without `ms`. */
class IdleLimit {
  #abort: AbortController | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(ms: number | undefined) {
    if (ms === undefined) return
    const abort = new AbortController()
    this.#abort = abort
    this.#timer = setTimeout(() => abort.abort(), ms)
  }

  get signal(): AbortSignal | undefined {
    return this.#abort?.signal
  }

  async *watch(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const piece of body) {
      this.#timer?.refresh()
      yield piece
    }
  }

  stop(): void {
    clearTimeout(this.#timer)
  }
}
