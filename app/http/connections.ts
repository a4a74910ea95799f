// What one connection may do: how many requests, how many at a time, and how slowly it may take its answers.
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/**
 * Requests that a client may have waiting on one connection (RFC 9112 §9.3.2). The parser hands on all it has read, and
 * the answer to each may be a mebibyte that the client does not take.
 */
const maxPending = 16

/** What is written must be taken at this rate, once the time-out is over. */
const minBytesPerSec = 16 * 1024

export interface ConnectionLimits {
  /** Requests served on one connection. */
  readonly maxRequestsPerConnection: number
  /** Time a client has to take what was written, before the rate counts; milliseconds. */
  readonly writeTimeoutMs: number
}

interface Connection {
  requests: number
  /** Requests that are not answered to the end. */
  waiting: number
  /** To the latest request. */
  answer: Answer
  backlog: Backlog | undefined
}

/** What the client had not taken at some moment. */
interface Backlog {
  /** The connection has written this many bytes when it is gone. */
  readonly upTo: number
  /** Milliseconds, monotonic. */
  readonly deadline: number
}

type Answer = Pick<ServerResponse, 'headersSent'>

/** The part of a socket that is looked at. */
type Written = Pick<Socket, 'bytesWritten' | 'writableLength'>

export class Connections<S extends Written = Socket> {
  #limits: ConnectionLimits
  #open = new Map<S, Connection>()

  constructor(limits: ConnectionLimits) {
    this.#limits = limits
  }

  /**
   * Counts a request. `last`: the answer must close the connection. `none`: it must not be served, as the connection
   * closes with an earlier answer. `flood`: the client does not wait for its answers.
   */
  begin(socket: S, answer: Answer): 'serve' | 'last' | 'none' | 'flood' {
    let connection = this.#open.get(socket)
    if (connection === undefined) {
      connection = { requests: 0, waiting: 0, answer, backlog: undefined }
      this.#open.set(socket, connection)
    }
    const { maxRequestsPerConnection } = this.#limits
    if (connection.requests >= maxRequestsPerConnection) return 'none'
    if (connection.waiting >= maxPending) return 'flood'
    connection.answer = answer
    connection.requests++
    connection.waiting++
    return connection.requests === maxRequestsPerConnection ? 'last' : 'serve'
  }

  /** Nothing more is served on the connection. */
  seal(socket: S): void {
    const connection = this.#open.get(socket)
    if (connection !== undefined) connection.requests = this.#limits.maxRequestsPerConnection
  }

  /** An answer has been taken to its end. */
  end(socket: S): void {
    const connection = this.#open.get(socket)
    if (connection !== undefined) connection.waiting--
  }

  /** Whether an answer is owed. */
  isBusy(socket: S): boolean {
    return (this.#open.get(socket)?.waiting ?? 0) > 0
  }

  /** Whether the latest request is being answered, though not all of it may have come. */
  isAnswering(socket: S): boolean {
    const connection = this.#open.get(socket)
    return connection !== undefined && connection.waiting > 0 && connection.answer.headersSent
  }

  delete(socket: S): void {
    this.#open.delete(socket)
  }

  /** The connections whose clients take their answers too slowly. To be asked every second or so. */
  *tooSlow(nowMs: number): Generator<S> {
    for (const [socket, connection] of this.#open) {
      const { bytesWritten, writableLength } = socket
      const { backlog } = connection
      if (writableLength === 0) connection.backlog = undefined
      else if (backlog === undefined || bytesWritten - writableLength >= backlog.upTo) {
        const ms = this.#limits.writeTimeoutMs + (writableLength / minBytesPerSec) * 1000
        connection.backlog = { upTo: bytesWritten, deadline: nowMs + ms }
      } else if (nowMs > backlog.deadline) yield socket
    }
  }
}
