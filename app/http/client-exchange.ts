// One request of a client and the destination of its response, and how the outcome of a call is written to it. The code
// that handles calls does not know whether the client speaks HTTP or writes lines to this process.
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import {
  type Call,
  type Completed,
  type Denied,
  type Failed,
  isRefusal,
  type MaybePromise,
  type Outcome,
  type ResponseHeaders,
  type ResponseStream,
} from '@svc/core'
import type { JsonValue } from '@svc/core/json'
import type { CallControl } from '@svc/core/pipeline'
import { traceparentOf } from '../upstream/send.js'
import { readBody } from './body.js'
import { type EventStreamRules, eventStreamRules, unbuffered } from './event-stream-rules.js'
import { EVENT_STREAM_TYPE, mediaType } from './media-type.js'
import { type BufferedResponse, isDisconnected, NO_SNIFF, writeWhole } from './response.js'

/** JSON that is parsed already. */
export interface ParsedBody {
  readonly value: JsonValue
  /** Length of its text in bytes. */
  readonly bytes: number
  /** The text, if it is passed on as it is written. */
  readonly text?: string
}

export interface ClientExchange {
  /** Names in lower case; a client without HTTP has only those that say who calls, and in which session. */
  readonly headers: IncomingHttpHeaders
  /** Undefined if the client does not speak HTTP: no header then repeats its message. */
  readonly http: IncomingMessage | undefined
  /** Rejects with `Refusal`. */
  body(maxBytes: number): Promise<Uint8Array | ParsedBody>
  readonly isDisconnected: boolean
  /** Runs `listener` when the client disconnects, not if it already has. The result removes the listener. */
  onDisconnect(listener: () => void): () => void
  /** Whether the head of the response is written. */
  readonly isBegun: boolean
  setHeader(name: string, value: string): void
  /** Writes the whole response. */
  whole(response: BufferedResponse, call?: Call): void
  /** Writes the head of a stream. */
  begin(status: number, headers: ResponseHeaders): void
  /** Pending while the client does not read what it got. */
  write(bytes: Uint8Array): MaybePromise<void>
  /** Keeps the connection in use for proxies between the gateway and the client. */
  keepAlive(): void
  end(): void
}

export class HttpClientExchange implements ClientExchange {
  readonly http: IncomingMessage
  #response: ServerResponse

  constructor(message: IncomingMessage, response: ServerResponse) {
    this.http = message
    this.#response = response
  }

  get headers(): IncomingHttpHeaders {
    return this.http.headers
  }

  body(maxBytes: number): Promise<Uint8Array> {
    return readBody(this.http, maxBytes)
  }

  get isDisconnected(): boolean {
    return isDisconnected(this.#response)
  }

  onDisconnect(listener: () => void): () => void {
    const response = this.#response
    // Each of the calls that one request makes listens.
    response.setMaxListeners(0)
    // It is emitted once; `once` would wrap the listener.
    response.on('close', listener)
    if (response.socket !== null) return () => response.off('close', listener)
    // A response emits `close` only while it owns the connection; one queued behind another (HTTP/1.1 pipelining) does
    // not.
    const { socket } = this.http
    // One listener per queued request is not a leak.
    socket.setMaxListeners(0)
    socket.on('close', listener)
    return () => {
      response.off('close', listener)
      socket.off('close', listener)
    }
  }

  get isBegun(): boolean {
    return this.#response.headersSent
  }

  setHeader(name: string, value: string): void {
    this.#response.setHeader(name, value)
  }

  whole(response: BufferedResponse, call?: Call): void {
    writeWhole(this.#response, response, call)
  }

  begin(status: number, headers: ResponseHeaders): void {
    const isEvents = mediaType(headers['content-type']) === EVENT_STREAM_TYPE
    this.#response.writeHead(status, isEvents ? { ...headers, ...unbuffered } : headers)
    this.#response.flushHeaders()
  }

  write(bytes: Uint8Array): MaybePromise<void> {
    if (this.#response.write(bytes)) return undefined
    return new Promise((resolve) => {
      const done = (): void => {
        this.#response.off('drain', done)
        stopListening()
        resolve()
      }
      const stopListening = this.onDisconnect(done)
      this.#response.once('drain', done)
    })
  }

  keepAlive(): void {
    if (!this.#response.writableNeedDrain && !this.isDisconnected) this.#response.write(':\n\n')
  }

  end(): void {
    this.#response.end()
  }
}

/** Writes `outcome` for `call`. Waits until the last byte is handed over or the client has disconnected. */
export function writeOutcome(
  exchange: ClientExchange,
  call: CallControl,
  outcome: Outcome,
  encode: (outcome: Denied | Failed, call: Call) => BufferedResponse,
): MaybePromise<void> {
  if (outcome.kind !== 'completed') return exchange.whole(encode(outcome, call), call)
  const { status, headers, body } = outcome
  if (!(body instanceof Uint8Array)) return writeStream(exchange, call, outcome, body)
  // Over MCP a 401 or 403 of a server is an error of the call, which its body holds; only the gateway's own are HTTP's.
  const isOfCall = call.protocol === 'mcp' && (status === 401 || status === 403)
  return exchange.whole({ status: isOfCall ? 200 : status, headers, body }, call)
}

async function writeStream(
  exchange: ClientExchange,
  call: CallControl,
  outcome: Completed,
  body: ResponseStream,
): Promise<void> {
  const headers: ResponseHeaders = { ...outcome.headers }
  delete headers['content-length']
  headers[NO_SNIFF] = 'nosniff'
  headers['x-trace-id'] = call.trace.traceId
  headers['x-span-id'] = call.trace.spanId
  headers['traceparent'] = traceparentOf(call)
  const rules = call.get(eventStreamRules)
  if (!exchange.isDisconnected && !exchange.isBegun) {
    exchange.begin(outcome.status, headers)
    // Some proxies and clients wait for the first byte of the body.
    if (rules !== undefined) exchange.keepAlive()
  }
  // A call whose outcome must be recorded is read to its end, until it has settled.
  const mustDrain = (): boolean => body.drainWhenAbandoned === true && !call.isSettled
  // A stream may be silent for hours: a disconnect must end it without waiting for its next piece.
  const abandoned = new AbandonedResponse(call, rules)
  const disconnect = (): void => {
    call.disconnect()
    if (mustDrain()) abandoned.begin()
    else call.abort('CANCELLED', 'The caller disconnected before the response was complete.')
  }
  const stopListening = exchange.onDisconnect(disconnect)
  if (exchange.isDisconnected) disconnect()
  const keepAlive =
    rules === undefined ? undefined : setInterval(() => exchange.keepAlive(), rules.keepAliveMs).unref()
  try {
    for await (const chunk of body) {
      if (exchange.isDisconnected) {
        // The connection is gone before its event says so: the server's stream must end too.
        if (!mustDrain()) return disconnect()
        abandoned.read(chunk.bytes.byteLength)
        continue
      }
      keepAlive?.refresh()
      const unread = exchange.write(chunk.bytes)
      if (unread !== undefined) await unread
    }
  } catch (error) {
    if (exchange.isDisconnected && call.abortState.aborted) return
    // A stream that the drain ends is complete; the client opens a new one.
    if (!isDraining(call)) throw error
  } finally {
    clearInterval(keepAlive)
    abandoned.end()
    stopListening()
  }
  exchange.end()
}

/** Limits what is read for the record alone after the caller has left. */
class AbandonedResponse {
  #call: Call
  #rules: EventStreamRules | undefined
  #timer: NodeJS.Timeout | undefined
  #bytes = 0

  constructor(call: Call, rules: EventStreamRules | undefined) {
    this.#call = call
    this.#rules = rules
  }

  begin(): void {
    if (this.#rules === undefined) return
    this.#timer = setTimeout(() => this.#cancel(), this.#rules.abandonedMs).unref()
  }

  read(bytes: number): void {
    this.#bytes += bytes
    if (this.#rules !== undefined && this.#bytes > this.#rules.abandonedBytes) this.#cancel()
  }

  end(): void {
    clearTimeout(this.#timer)
  }

  #cancel(): void {
    this.#call.abort('CANCELLED', 'The caller left, and the response did not come in time.')
  }
}

function isDraining({ abortState }: Call): boolean {
  return isRefusal(abortState.reason) && abortState.reason.code === 'DRAINING'
}
