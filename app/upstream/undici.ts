// The default dispatcher: one keep-alive pool per origin, each request sent once.
import { Readable } from 'node:stream'
import type { Abortable, ResponseHeaders } from '@svc/core'
import type { Client, Dispatcher, Pool } from 'undici'
import type { UpstreamDispatcher } from './dispatcher.js'
import { UpstreamError, type UpstreamRequest, type UpstreamResponse } from './response.js'
import { noResponseWithin } from './response-limits.js'

export interface UndiciOptions {
  readonly connectTimeoutMs: number
  /** Time limit for the head of the response; undefined: that of the request. */
  readonly headersTimeoutMs: number | undefined
  /** Time limit between two chunks of a response, but for events that may pause; undefined: that of the request. */
  readonly idleTimeoutMs: number | undefined
  /** A response up to this many bytes is collected; a larger one is streamed. */
  readonly wholeUpToBytes: number
}

/** Of requests of the gateway itself, which have a time limit of their own. */
const DEFAULT_TIMEOUT_MS = 300_000

/** Loaded by the first request, because it is large: a gateway need not wait for it, and may have no server over HTTP. */
let loaded: Undici | undefined
type Undici = typeof import('undici')

/** The pool of a target, with its origin, which a URL serialises each time. */
interface PooledOrigin {
  readonly origin: string
  readonly pool: Pool
}

export class UndiciDispatcher implements UpstreamDispatcher {
  #pools = new Map<string, Pool>()
  #byTarget = new WeakMap<URL, PooledOrigin>()
  #options: UndiciOptions
  /** Connections of single requests. */
  #ownConnections = new Set<Client>()

  constructor(options: UndiciOptions) {
    this.#options = options
  }

  send(target: URL, request: UpstreamRequest, onSent: () => void): Promise<UpstreamResponse> {
    const undici = loaded
    if (undici === undefined) {
      return import('undici').then((known) => {
        loaded = known
        return this.send(target, request, onSent)
      })
    }
    return new Promise((resolve, reject) => {
      if (request.signal.aborted) {
        reject(request.signal.reason)
        return
      }
      const { responseTimeoutMs = DEFAULT_TIMEOUT_MS } = request
      const { headersTimeoutMs = responseTimeoutMs, idleTimeoutMs = responseTimeoutMs } = this.#options
      const { wholeUpToBytes } = this.#options
      const mayPause = request.eventsMayPause === true
      const limits: ExchangeLimits = {
        wholeUpTo: wholeUpToBytes,
        idleMs: mayPause ? idleTimeoutMs : undefined,
        headersMs: headersTimeoutMs,
        Timeout: undici.errors.BodyTimeoutError,
      }
      const { origin, pool } = this.#byTarget.get(target) ?? this.#pooled(undici, target)
      const { path, method, headers, body = null, isOnNewConnection = false } = request
      const own = isOnNewConnection ? this.#connectionOf(undici, origin) : undefined
      // The pool cannot know yet whether the response is an event stream.
      const bodyTimeout = mayPause ? 0 : idleTimeoutMs
      const dispatcher = own ?? pool
      dispatcher.dispatch(
        { origin, path, method, headers, body, headersTimeout: headersTimeoutMs, bodyTimeout },
        new Exchange(request, limits, onSent, resolve, reject),
      )
      // It ends with the response.
      void own?.close().finally(() => this.#ownConnections.delete(own))
    })
  }

  #pooled({ Pool }: Undici, target: URL): PooledOrigin {
    const { origin } = target
    let pool = this.#pools.get(origin)
    if (pool === undefined) {
      pool = new Pool(origin, { connect: { timeout: this.#options.connectTimeoutMs }, pipelining: 1 })
      this.#pools.set(origin, pool)
    }
    const pooled = { origin, pool }
    this.#byTarget.set(target, pooled)
    return pooled
  }

  #connectionOf({ Client }: Undici, origin: string): Client {
    const client = new Client(origin, { connect: { timeout: this.#options.connectTimeoutMs } })
    this.#ownConnections.add(client)
    return client
  }

  /** Closes all connections and aborts their exchanges. */
  async close(): Promise<void> {
    const open = [...this.#pools.values(), ...this.#ownConnections]
    this.#pools.clear()
    this.#byTarget = new WeakMap()
    await Promise.all(open.map((one) => one.destroy()))
  }
}

interface ExchangeLimits {
  /** Bytes above which a response is a stream. */
  readonly wholeUpTo: number
  /** Time limit for the head, which undici has. */
  readonly headersMs: number
  /** Time limit between two chunks of a response that is not an event stream; undefined if undici has one. */
  readonly idleMs: number | undefined
  /** The error of that time limit. */
  readonly Timeout: new () => Error
}

const noHeaders: ResponseHeaders = {}
const none: Buffer[] = []

/** One request on its way: collects a small response whole, turns a large or endless one into a stream. */
class Exchange implements Dispatcher.DispatchHandler {
  #signal: Abortable
  #call: UpstreamRequest['call']
  #limits: ExchangeLimits
  #onSent: () => void
  #resolve: (response: UpstreamResponse) => void
  #reject: (reason: unknown) => void
  #idle: NodeJS.Timeout | undefined
  #controller: Dispatcher.DispatchController | undefined
  #onAbort = (): void => this.#controller?.abort(asError(this.#signal.reason))
  #sent = false
  #isEnded = false
  #status = 0
  #headers = noHeaders
  #pieces: Buffer[] | undefined
  #size = 0
  #stream: Readable | undefined

  constructor(
    { signal, call }: UpstreamRequest,
    limits: ExchangeLimits,
    onSent: () => void,
    resolve: (response: UpstreamResponse) => void,
    reject: (reason: unknown) => void,
  ) {
    this.#signal = signal
    this.#call = call
    this.#limits = limits
    this.#onSent = onSent
    this.#resolve = resolve
    this.#reject = reject
    signal.addEventListener('abort', this.#onAbort)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#signal.aborted) {
      controller.abort(asError(this.#signal.reason))
      return
    }
    this.#sent = true
    this.#onSent()
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (status < 200) return
    this.#call?.firstByte()
    this.#status = status
    this.#headers = headers as ResponseHeaders
    const type = headers['content-type']
    const length = Number(headers['content-length'] ?? 0)
    const isEvents = typeof type === 'string' && /^text\/event-stream\b/i.test(type)
    // Most responses end in the packet of their head, and need no timer.
    if (!isEvents && this.#limits.idleMs !== undefined) queueMicrotask(() => this.#limitSilence(controller))
    if (isEvents || length > this.#limits.wholeUpTo) this.#becomeStream()
  }

  #limitSilence(controller: Dispatcher.DispatchController): void {
    if (this.#isEnded) return
    this.#idle = setTimeout(() => controller.abort(new this.#limits.Timeout()), this.#limits.idleMs)
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#idle?.refresh()
    if (this.#stream !== undefined) {
      if (!this.#stream.push(chunk)) controller.pause()
      return
    }
    if (this.#pieces === undefined) this.#pieces = [chunk]
    else this.#pieces.push(chunk)
    this.#size += chunk.byteLength
    if (this.#size > this.#limits.wholeUpTo) this.#becomeStream()
  }

  onResponseEnd(): void {
    this.#isEnded = true
    clearTimeout(this.#idle)
    this.#signal.removeEventListener('abort', this.#onAbort)
    if (this.#stream !== undefined) {
      this.#stream.push(null)
      return
    }
    const { [0]: first, length = 0 } = this.#pieces ?? none
    const body = first !== undefined && length === 1 ? first : Buffer.concat(this.#pieces ?? none)
    this.#resolve({ status: this.#status, headers: this.#headers, body })
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#isEnded = true
    clearTimeout(this.#idle)
    this.#signal.removeEventListener('abort', this.#onAbort)
    const reason = this.#signal.aborted
      ? this.#signal.reason
      : errorOf(error, this.#sent, this.#limits.headersMs)
    if (this.#stream !== undefined) this.#stream.destroy(asError(reason))
    else this.#reject(reason)
  }

  #becomeStream(): void {
    const controller = this.#controller
    const stream = new Readable({
      highWaterMark: 256 * 1024,
      read: () => {
        this.#idle?.refresh()
        controller?.resume()
      },
      destroy: (error, done) => {
        // The reader has stopped, so the upstream's response is aborted.
        controller?.abort(error ?? new Error('the reader has left'))
        done(error)
      },
    })
    // A reader gets the error from the iteration; without a reader, the event must not end the process.
    stream.on('error', () => stream.destroy())
    this.#stream = stream
    for (const piece of this.#pieces?.splice(0) ?? []) stream.push(piece)
    this.#resolve({ status: this.#status, headers: this.#headers, body: stream })
  }
}

function errorOf(error: Error, sent: boolean, headersMs: number): UpstreamError {
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined
  return new UpstreamError(messageFor(code, headersMs), sent ? 'unknown' : 'no', { cause: error })
}

function messageFor(code: string | undefined, headersMs: number): string {
  switch (code) {
    case 'ECONNREFUSED':
      return 'The upstream refuses connections.'
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return "The upstream's name cannot be resolved."
    case 'UND_ERR_CONNECT_TIMEOUT':
      return 'The upstream did not accept a connection in time.'
    case 'UND_ERR_HEADERS_TIMEOUT':
      return noResponseWithin(headersMs)
    case 'UND_ERR_BODY_TIMEOUT':
      return 'The upstream stopped in the middle of its response; server.upstreamIdleMs is the silence allowed in it.'
    case 'UND_ERR_SOCKET':
    case 'ECONNRESET':
    case 'EPIPE':
      return 'The upstream closed the connection before its response was complete.'
    default:
      return 'The upstream could not be reached or broke the protocol.'
  }
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason))
}
