// One message of a client over stdio, and the gateway's response to it: as a whole, or event by event.
import { setMaxListeners } from 'node:events'
import type { IncomingHttpHeaders } from 'node:http'
import type { MaybePromise, ResponseHeaders } from '@svc/core'
import { isJsonObject, type JsonObject, type JsonValue } from '@svc/core/json'
import { bodyTooLarge } from '../../http/body.js'
import type { ClientExchange } from '../../http/client-exchange.js'
import type { BufferedResponse } from '../../http/response.js'
import { idOf, McpRefusal, parseJsonBody } from '../../mcp/message.js'
import { revisionIn } from '../../mcp/meta.js'
import { isStateless, type RequestId } from '../../mcp/protocol.js'
import type { RequestBody } from '../../mcp/request.js'
import type { Fields } from '../../mcp/rpc-response.js'

export interface LineRequest {
  readonly method: 'POST' | 'GET' | 'DELETE'
  readonly headers: IncomingHttpHeaders
  readonly body?: RequestBody
  /** Aborts if the client no longer waits for the response. */
  readonly signal: AbortSignal
  /** Gets each event of a stream, and comments. */
  onEvent(bytes: Uint8Array): MaybePromise<void>
}

export class LineExchange implements ClientExchange {
  readonly http = undefined
  readonly headers: IncomingHttpHeaders
  /** The status of the response; 0 without one. */
  status = 0
  /** Undefined if the response was a stream. */
  responseBody: BufferedResponse['body'] | undefined
  #request: LineRequest
  #responseHeaders: ResponseHeaders = {}

  constructor(request: LineRequest) {
    this.headers = request.headers
    this.#request = request
    setMaxListeners(0, request.signal)
  }

  async body(maxBytes: number): Promise<RequestBody> {
    const { body = new Uint8Array() } = this.#request
    const bytes = body instanceof Uint8Array ? body.byteLength : body.bytes
    if (bytes > maxBytes) throw bodyTooLarge(maxBytes)
    return body
  }

  responseHeader(name: string): string | undefined {
    const value = this.#responseHeaders[name]
    return typeof value === 'string' ? value : undefined
  }

  get isDisconnected(): boolean {
    return this.#request.signal.aborted
  }

  onDisconnect(listener: () => void): () => void {
    const { signal } = this.#request
    signal.addEventListener('abort', listener)
    return () => signal.removeEventListener('abort', listener)
  }

  get isBegun(): boolean {
    return this.status !== 0
  }

  setHeader(name: string, value: string): void {
    this.#responseHeaders[name] = value
  }

  whole({ status, headers, body }: BufferedResponse): void {
    if (this.isDisconnected) return
    this.begin(status, headers)
    this.responseBody = body
  }

  begin(status: number, headers: ResponseHeaders): void {
    this.status = status
    Object.assign(this.#responseHeaders, headers)
  }

  write(bytes: Uint8Array): MaybePromise<void> {
    return this.#request.onEvent(bytes)
  }

  keepAlive(): void {
    // A pipe needs no traffic to stay open.
  }

  end(): void {
    // The message that ends a response is itself the sign of its end.
  }
}

// A line of a client over stdio, parsed once: the gateway gets the parsed message.

export interface ClientLine {
  /** The bytes of a line without a message: the gateway refuses it. */
  readonly body: RequestBody
  /** Undefined for a response, and for a line without a message. */
  readonly method: string | undefined
  /** Undefined for a notification or a response. */
  readonly id: RequestId | undefined
  /** Empty if the message has none. */
  readonly params: JsonObject
  /** The revision that the message names. */
  readonly revision: string | undefined
}

export function readLine(text: string): ClientLine {
  const bytes = Buffer.from(text)
  let value: JsonValue
  try {
    value = parseJsonBody(bytes)
  } catch (error) {
    if (!(error instanceof McpRefusal)) throw error
    return { body: bytes, method: undefined, id: error.id, params: {}, revision: undefined }
  }
  const { method, params } = isJsonObject(value) ? value : {}
  return {
    body: isJsonObject(value) ? { value, bytes: bytes.byteLength } : bytes,
    method: typeof method === 'string' ? method : undefined,
    id: idOf(value),
    params: isJsonObject(params) ? params : {},
    revision: revisionIn(params),
  }
}

/** Whether it is a request of a revision without sessions, which a client over HTTP cancels by closing its stream. */
export function isStatelessRequest({ id, revision }: ClientLine): boolean {
  return id !== undefined && revision !== undefined && isStateless(revision)
}

export function isResponseTo({ id }: ClientLine, message: Fields): boolean {
  return id !== undefined && message['id'] === id && !('method' in message)
}
