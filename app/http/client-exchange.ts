// One request of a client and the destination of its response. The code that handles calls works with it and does not
// know whether the client speaks HTTP or writes lines to this process.
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { Call, MaybePromise, ResponseHeaders } from '@svc/core'
import type { JsonValue } from '@svc/core/json'
import { readBody } from './body.js'
import { unbuffered } from './event-stream-rules.js'
import { EVENT_STREAM_TYPE, mediaType } from './media-type.js'
import { type BufferedResponse, isDisconnected, writeWhole } from './response.js'

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
