// The session of a client over stdio at an MCP endpoint of the gateway: messages are sent with the token and in the
// session that the endpoint asks for. If the endpoint ends the session, another one is begun as the client began the
// first.

import { setMaxListeners } from 'node:events'
import type { IncomingHttpHeaders } from 'node:http'
import type { MaybePromise, ResponseHeaders } from '@svc/core'
import { isJsonObject, type JsonObject, type JsonValue } from '@svc/core/json'
import { bodyTooLarge } from '../../http/body.js'
import type { ClientExchange } from '../../http/client-exchange.js'
import { LAST_EVENT_ID_HEADER, PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER } from '../../http/header-names.js'
import type { BufferedResponse } from '../../http/response.js'
import { inSession, type ServerSession, sessionHeaders } from '../../mcp/handshake.js'
import { idOf, McpRefusal, parseJsonBody } from '../../mcp/message.js'
import { revisionIn } from '../../mcp/meta.js'
import { isStateless, type RequestId } from '../../mcp/protocol.js'
import type { RequestBody } from '../../mcp/request.js'
import type { Fields } from '../../mcp/rpc-response.js'
import { shownEvent, shownMessage } from '../../mcp/servers.js'

/** Tokens for the endpoint. */
export interface Credentials {
  /** The value of the `Authorization` header; undefined if none is needed so far. */
  authorization(): Promise<string | undefined>
  /** Replaces the refused value by one that the `WWW-Authenticate` header asks for. Rejects if it cannot. */
  renew(challenge: string, refused: string | undefined): Promise<void>
}

export interface EndpointSessionOptions {
  readonly credentials?: Credentials
  /** Resolves when the response is written. */
  send(exchange: LineExchange, method: LineRequest['method']): Promise<void>
}

type OnEvent = LineRequest['onEvent']

const noSession: ServerSession = { sessionId: undefined, revision: '', isStateless: false }

function ignore(): void {
  // The client does not see how its session is replaced or ended.
}

export class EndpointSession {
  #options: EndpointSessionOptions
  #handshake: ClientLine | undefined
  #open: ServerSession | undefined
  #reopening: Promise<void> | undefined
  #onReopened: () => void

  /** `onReopened` runs when another session was begun, which the client does not see. */
  constructor(options: EndpointSessionOptions, onReopened: () => void) {
    this.#options = options
    this.#onReopened = onReopened
  }

  /** Sends a message, again with another token or in another session if the endpoint asks for one. */
  async post(line: ClientLine, signal: AbortSignal, onEvent: OnEvent): Promise<LineExchange> {
    if (line.method === 'initialize') return this.#begin(line, signal, onEvent)
    const send = () => this.#post(line, signal, onEvent)
    // A 404 for a task does not say that the session has ended.
    if (line.method?.startsWith('tasks/') === true) return send()
    return inSession(
      async () => this.#open ?? noSession,
      (session) => this.#replace(session),
      send,
    )
  }

  /** Reads the stream of the server's own messages, or the events after one event. Resolves to whether there is a stream. */
  async listen(lastEventId: string | undefined, signal: AbortSignal, onEvent: OnEvent): Promise<boolean> {
    const resumed = lastEventId === undefined ? {} : { [LAST_EVENT_ID_HEADER]: lastEventId }
    const headers = { ...this.#headers(), ...resumed }
    const { responseBody, isBegun } = await this.#send({ method: 'GET', headers, signal, onEvent })
    return isBegun && responseBody === undefined
  }

  async end(): Promise<void> {
    if (this.#open?.sessionId === undefined) return
    const { signal } = new AbortController()
    await this.#send({ method: 'DELETE', headers: this.#headers(), signal, onEvent: ignore })
  }

  async #begin(handshake: ClientLine, signal: AbortSignal, onEvent: OnEvent): Promise<LineExchange> {
    let response: Fields | undefined
    const exchange = await this.#post(handshake, signal, (bytes) => {
      const { message } = shownEvent(bytes)
      if (message !== undefined && isResponseTo(handshake, message)) response = message
      return onEvent(bytes)
    })
    if (exchange.responseBody !== undefined) response = shownMessage(exchange.responseBody)?.message
    const result = response?.['result']
    if (isJsonObject(result)) {
      this.#handshake = handshake
      const sessionId = exchange.responseHeader(SESSION_ID_HEADER)
      this.#open = { sessionId, revision: String(result['protocolVersion']), isStateless: false }
    }
    return exchange
  }

  /** Runs once for all messages that find the session ended, whichever of them is cancelled. */
  async #replace(ended: ServerSession): Promise<void> {
    if (this.#open !== ended) return
    this.#reopening ??= this.#reopen().finally(() => {
      this.#reopening = undefined
    })
    await this.#reopening
  }

  async #reopen(): Promise<void> {
    if (this.#handshake === undefined) return
    const { signal } = new AbortController()
    await this.#begin(this.#handshake, signal, ignore)
    await this.#post(readLine('{"jsonrpc":"2.0","method":"notifications/initialized"}'), signal, ignore)
    this.#onReopened()
  }

  async #post(line: ClientLine, signal: AbortSignal, onEvent: OnEvent): Promise<LineExchange> {
    const { credentials } = this.#options
    const { body } = line
    const send = (authorization: string | undefined) =>
      this.#send({ method: 'POST', headers: this.#headers(line), body, signal, onEvent }, authorization)
    const authorization = await credentials?.authorization()
    const exchange = await send(authorization)
    const challenge = challengeIn(exchange)
    if (challenge === undefined || credentials === undefined) return exchange
    await credentials.renew(challenge, authorization)
    return send(await credentials.authorization())
  }
  async #send(request: LineRequest, authorization?: string): Promise<LineExchange> {
    const token = authorization ?? (await this.#options.credentials?.authorization())
    const headers = token === undefined ? request.headers : { ...request.headers, authorization: token }
    const exchange = new LineExchange({ ...request, headers })
    await this.#options.send(exchange, request.method)
    return exchange
  }

  #headers(line?: ClientLine): Record<string, string> {
    const open = line?.method === 'initialize' ? undefined : this.#open
    const session = open === undefined ? {} : sessionHeaders(open)
    return line?.revision === undefined ? session : { ...session, [PROTOCOL_VERSION_HEADER]: line.revision }
  }
}

/** The challenge if the endpoint asks for another token. */
function challengeIn(exchange: LineExchange): string | undefined {
  const challenge = exchange.responseHeader('www-authenticate')
  const isForScope = exchange.status === 403 && challenge?.includes('insufficient_scope') === true
  return exchange.status === 401 || isForScope ? challenge : undefined
}

// One message of a client over stdio, and the gateway's response to it: as a whole, or event by event.

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
