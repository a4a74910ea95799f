// The listening HTTP server: limits, requests in flight, drain. The handler interprets requests.
import { randomBytes } from 'node:crypto'
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from 'node:http'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https'
import type { Server as NetServer, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { denied, type Logger, type MaybePromise, type Meter } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { UseLimit } from '../budget/use-limit.js'
import { refuseBodyOn } from './body.js'
import { AddressConnections, Connections } from './connections.js'
import { defaultLimits } from './default-limits.js'
import { InFlight } from './in-flight.js'
import { listenerUrl, listenOn, listenOnOtherFamily } from './listen.js'
import { type HostRule, refuseRequest } from './request-errors.js'
import { noCall, refusalResponse, writeRefusal } from './response.js'
import type { Certificates } from './tls/certificates.js'

interface ServerLimits {
  /** Address to listen on. */
  readonly host: string
  /** Port; 0 picks a free one. */
  readonly port: number
  readonly maxHeaderBytes: number
  readonly maxHeaders?: number
  readonly maxConnections?: number
  readonly maxConnectionsPerAddress?: number
  readonly maxRequestsPerConnection?: number
  readonly headersTimeoutMs: number
  readonly requestTimeoutMs: number
  readonly writeTimeoutMs?: number
  readonly keepAliveTimeoutMs: number
}

export interface ServerDependencies extends HostRule {
  /** Whether other processes may listen on the port too; the system spreads connections over them. */
  readonly reusePort?: boolean
  /** Absent: plain HTTP. The server watches and closes them. */
  readonly certificates?: Certificates | undefined
  /** Whether connections from an address belong to many clients, as a proxy's do; if absent, none. */
  readonly isProxy?: (address: string) => boolean
  /** Counts requests that became no call, so that an attack shows in metrics. */
  readonly meter?: Meter
}

export type Handler = (message: IncomingMessage, response: ServerResponse) => MaybePromise<void>

/** Time a client has to read its last response before the connection closes. */
const lingerMs = 1_000
/** Interval of the check for clients that send or read too slowly. */
const checkIntervalMs = 1_000

export class HttpServer {
  #server: Server | TlsServer
  #limits: Required<ServerLimits>
  #dependencies: ServerDependencies
  #handler: Handler
  #logger: Logger
  #inFlight = new InFlight<ServerResponse>()
  #connections: Connections
  #checkTimer: NodeJS.Timeout | undefined
  /** Set if the host is `localhost`. */
  #otherFamily: NetServer | undefined
  #onResponse: (this: ServerResponse) => void

  constructor(limits: ServerLimits, handler: Handler, logger: Logger, dependencies: ServerDependencies = {}) {
    this.#limits = { ...defaultLimits, ...limits }
    this.#dependencies = dependencies
    this.#handler = handler
    this.#logger = logger
    const connections = new Connections(this.#limits)
    this.#connections = connections
    this.#onResponse = function () {
      connections.end(this.req.socket)
    }
    const options = serverOptions(this.#limits)
    const tls = dependencies.certificates?.serverOptions
    this.#server =
      tls === undefined
        ? createServer(options)
        : createTlsServer({ ...options, ...tls, handshakeTimeout: limits.headersTimeoutMs })
    this.#server.maxConnections = this.#limits.maxConnections
    // One more than the limit is parsed, so that the excess is seen: node drops further headers silently.
    this.#server.maxHeadersCount = this.#limits.maxHeaders + 1
    this.#server.timeout = this.#limits.writeTimeoutMs
    this.#listenToServer(tls === undefined ? 'connection' : 'secureConnection')
  }

  #listenToServer(connected: 'connection' | 'secureConnection'): void {
    const server = this.#server as Server
    const { isProxy = () => false } = this.#dependencies
    const byAddress = new AddressConnections(new UseLimit(this.#limits.maxConnectionsPerAddress), isProxy)
    server.on('connection', (socket: Socket) => {
      if (!byAddress.admit(socket)) this.#closeConnection(socket, 'its address has too many connections')
    })
    // Node has closed it, as there are `maxConnections`.
    server.on('drop', () => this.#dependencies.meter?.count('svc_http_connections_closed_total'))
    server.on(connected, (socket: Socket) => socket.once('close', () => this.#connections.delete(socket)))
    server.on('request', this.#serve)
    // An expectation other than `100-continue` is refused like any other invalid header.
    server.on('checkExpectation', this.#serve)
    server.on('checkContinue', (message, response) => {
      // A caller that is refused before its body is read need not send the body.
      message.once('resume', () => {
        if (!response.headersSent) response.writeContinue()
      })
      this.#serve(message, response)
    })
    // Without a listener node closes the connection.
    server.on('connect', (_message, socket) => this.#refuseMalformed(socket, 'CONNECT is not served here.'))
    server.on('clientError', (error, socket) => {
      const message = parserError(error)
      // An error in what follows a request must not be written as that request's response, or into it.
      if (message === undefined || this.#isRunning(socket)) socket.destroy()
      else if (this.#connections.isResponding(socket as Socket)) endSoon(socket)
      else {
        // A client that ends its half in the middle of a request has disconnected.
        if (!isEarlyEnd(error)) refuseBodyOn(socket, message)
        this.#refuseMalformed(socket, message)
      }
    })
    // Nothing was received or sent: the client is idle, or does not read its response. A client that waits for its
    // response is neither.
    server.on('timeout', (socket) => {
      if (!this.#connections.isBusy(socket)) socket.destroy()
      else if (socket.writableLength > 0)
        this.#closeConnection(socket, 'the client does not read its response')
    })
  }

  readonly #serve = (message: IncomingMessage, response: ServerResponse): void => {
    const { socket } = message
    const place = this.#connections.begin(socket, response)
    if (place === 'none') return
    if (place === 'flood') {
      this.#connections.seal(socket)
      this.#closeConnection(socket, 'the client sends requests without waiting for responses')
      return
    }
    response.on('close', this.#onResponse)
    if (place === 'last') response.setHeader('connection', 'close')
    const refusal = refuseRequest(message, this.#limits.maxHeaders, this.#dependencies)
    if (refusal !== undefined) {
      this.#dependencies.meter?.count('svc_http_refusals_total')
      // Requests that follow on the connection are as unsafe, and may have been parsed already.
      this.#connections.seal(socket)
      response.setHeader('connection', 'close')
      writeRefusal(response, denied('BAD_REQUEST', refusal), newTraceId())
      return
    }
    void this.#handle(message, response)
  }

  /** Never rejects. */
  async #handle(message: IncomingMessage, response: ServerResponse): Promise<void> {
    const place = this.#inFlight.add(response)
    try {
      await this.#handler(message, response)
    } catch (error) {
      // Other errors have become outcomes before; this one interrupted a response.
      this.#logger.warn({ reason: messageOf(error) }, 'response interrupted')
      response.destroy()
    } finally {
      this.#inFlight.delete(place)
    }
  }

  /** Refuses what the HTTP parser rejects, in the error shape and without a call, and closes the connection. */
  #refuseMalformed(socket: Duplex, message: string): void {
    if (!socket.writable) {
      socket.destroy()
      return
    }
    this.#dependencies.meter?.count('svc_http_refusals_total')
    socket.write(malformedResponse(message))
    endSoon(socket)
  }

  #closeConnection(socket: Socket, reason: string): void {
    this.#dependencies.meter?.count('svc_http_connections_closed_total')
    this.#logger.debug({ reason }, 'connection closed')
    socket.destroy()
  }

  #isRunning(socket: Duplex): boolean {
    for (const { req } of this.#inFlight) if (req.socket === socket && req.complete) return true
    return false
  }

  /** Rejects if the address is in use or not of this machine, with the `code` of the system's error. */
  async listen(): Promise<{ port: number; url: string }> {
    const { certificates, reusePort = false } = this.#dependencies
    const port = await listenOn(this.#server, { ...this.#limits, reusePort })
    try {
      if (this.#limits.host === 'localhost')
        this.#otherFamily = await listenOnOtherFamily(this.#server, { port, reusePort })
    } catch (error) {
      this.stopListening()
      throw error
    }
    certificates?.watch((context) => (this.#server as TlsServer).setSecureContext(context))
    this.#checkTimer = setInterval(() => this.#closeSlow(), checkIntervalMs).unref()
    return { port, url: listenerUrl(this.#limits.host, port, certificates !== undefined) }
  }

  #closeSlow(): void {
    for (const socket of this.#connections.tooSlow(performance.now())) {
      this.#closeConnection(socket, 'the client reads its response too slowly')
    }
  }

  /** Accepts no more connections; requests on open ones still get a response. */
  stopListening(): void {
    this.#otherFamily?.close()
    if (this.#server.listening) this.#server.close()
    this.#server.closeIdleConnections()
  }

  /**
   * Waits for the handlers at most `drainMs`, then closes every connection and waits for the handlers to end, at most
   * `withinMs`.
   */
  async close(withinMs: number, drainMs = 0): Promise<void> {
    this.#dependencies.certificates?.close()
    this.stopListening()
    if (drainMs > 0) await this.#inFlight.idle(drainMs)
    clearInterval(this.#checkTimer)
    this.#server.closeAllConnections()
    await this.#inFlight.idle(withinMs)
  }
}

function serverOptions(limits: Required<ServerLimits>): ServerOptions {
  const { headersTimeoutMs, requestTimeoutMs } = limits
  return {
    maxHeaderSize: limits.maxHeaderBytes,
    headersTimeout: Math.min(headersTimeoutMs, requestTimeoutMs),
    requestTimeout: requestTimeoutMs,
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    // Node's default is to check the two above twice a minute.
    connectionsCheckingInterval: Math.min(
      checkIntervalMs,
      Math.ceil(Math.min(headersTimeoutMs, requestTimeoutMs) / 2),
    ),
    // `requestError` checks it, and refuses in the error shape.
    requireHostHeader: false,
    // A repeated header must be seen, not dropped: two Authorization headers are refused.
    joinDuplicateHeaders: true,
    // Overrides the command line's --insecure-http-parser.
    insecureHTTPParser: false,
  }
}

function newTraceId(): string {
  return randomBytes(16).toString('hex')
}

/** The message for a request that the parser rejects; undefined if no response can be sent. */
function parserError(error: Error & { code?: string }): string | undefined {
  const { code = '' } = error
  if (code === 'HPE_HEADER_OVERFLOW') return 'The request headers are too large.'
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'The request did not arrive in time.'
  return code.startsWith('HPE_') ? 'The request is not HTTP that can be read.' : undefined
}

function isEarlyEnd(error: Error & { code?: string }): boolean {
  return error.code === 'HPE_INVALID_EOF_STATE'
}

function malformedResponse(message: string): string {
  const traceId = newTraceId()
  const { body } = refusalResponse(denied('BAD_REQUEST', message), noCall(traceId))
  return (
    `HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nx-trace-id: ${traceId}\r\nconnection: close\r\n` +
    `content-length: ${Buffer.byteLength(body)}\r\n\r\n${String(body)}`
  )
}

/** Ends the connection, even if the client does not close its half. */
function endSoon(socket: Duplex): void {
  socket.end()
  const timer = setTimeout(() => socket.destroy(), lingerMs).unref()
  socket.once('close', () => clearTimeout(timer))
}
