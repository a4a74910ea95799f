// The listening server: limits, in-flight bookkeeping, drain. What a request means is the handler's business.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { denied, type Logger, messageOf } from '@svc/core'
import { refusalAnswer } from './answer.js'
import { InFlight } from './in-flight.js'

export interface ServerLimits {
  /** Address to listen on. */
  readonly host: string
  /** Port; 0 picks a free one. */
  readonly port: number
  readonly maxHeaderBytes: number
  readonly headersTimeoutMs: number
  readonly requestTimeoutMs: number
  readonly keepAliveTimeoutMs: number
}

export type Handler = (message: IncomingMessage, response: ServerResponse) => Promise<void>

export class HttpServer {
  #server: Server
  #limits: ServerLimits
  #inFlight = new InFlight<ServerResponse>()

  constructor(limits: ServerLimits, handler: Handler, logger: Logger) {
    this.#limits = limits
    this.#server = createServer(
      {
        maxHeaderSize: limits.maxHeaderBytes,
        headersTimeout: limits.headersTimeoutMs,
        requestTimeout: limits.requestTimeoutMs,
        keepAliveTimeout: limits.keepAliveTimeoutMs,
        // Refused by the handler, in the error shape.
        requireHostHeader: false,
        // A repeated header must be seen, not dropped: two Authorization headers are refused.
        joinDuplicateHeaders: true,
      },
      (message, response) => {
        const place = this.#inFlight.add(response)
        handler(message, response)
          .catch((fault: unknown) => {
            // Faults have become outcomes long before; what is left is an answer that broke off.
            logger.warn({ reason: messageOf(fault) }, 'answer broken off')
            response.destroy()
          })
          .finally(() => {
            this.#inFlight.delete(place)
          })
      },
    )
    // Not `100-continue`, which node answers: the handler refuses it like any other header that is wrong.
    this.#server.on('checkExpectation', (message, response) =>
      this.#server.emit('request', message, response),
    )
    this.#server.on('clientError', (error, socket) => {
      // What follows a request that is being answered must not be told as that request's answer, or in its midst.
      if (this.#isAnswering(socket)) socket.destroy()
      else answerUnreadable(error, socket)
    })
  }

  #isAnswering(socket: Duplex): boolean {
    for (const { req } of this.#inFlight) if (req.socket === socket && req.complete) return true
    return false
  }

  /** Rejects when the address is taken or not ours. */
  listen(): Promise<{ port: number; url: string }> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(this.#limits.port, this.#limits.host, () => {
        this.#server.off('error', reject)
        const address = this.#server.address()
        const port = typeof address === 'object' && address !== null ? address.port : this.#limits.port
        const host = this.#limits.host.includes(':') ? `[${this.#limits.host}]` : this.#limits.host
        resolve({ port, url: `http://${host}:${port}` })
      })
    })
  }

  /** Takes no more connections; those that are open may still be answered. */
  stopListening(): void {
    if (this.#server.listening) this.#server.close()
    this.#server.closeIdleConnections()
  }

  /** Closes every connection and waits until the handlers know, for at most `withinMs`. */
  async close(withinMs: number): Promise<void> {
    this.stopListening()
    this.#server.closeAllConnections()
    await this.#inFlight.idle(withinMs)
  }
}

/** What the HTTP parser refuses never becomes a call: it is answered in the error shape and closed. */
function answerUnreadable(error: Error & { code?: string }, socket: Duplex): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy()
    return
  }
  const message =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? 'The request headers are too large.'
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? 'The request did not arrive in time.'
        : 'The request is not HTTP that can be read.'
  const { body } = refusalAnswer(denied('BAD_REQUEST', message), '0'.repeat(32))
  socket.end(
    'HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n' +
      `content-length: ${Buffer.byteLength(body)}\r\n\r\n${String(body)}`,
  )
}
