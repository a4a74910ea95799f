// Limits client connections: the requests of one connection in all and at a time, the rate at which it reads responses,
// and the number of open connections of one address.
import type { ServerResponse } from 'node:http'
import { isIPv6, type Socket } from 'node:net'
import type { UseLimit } from '../budget/use-limit.js'

/**
 * Requests without a response on one connection (pipelining, RFC 9112 §9.3.2). Each may have a response of a mebibyte
 * in memory that the client does not read.
 */
const maxPending = 16

/** The rate at which a client must read its response after the time-out. */
const minBytesPerSec = 16 * 1024

interface ConnectionLimits {
  /** Requests served on one connection. */
  readonly maxRequestsPerConnection: number
  /** Time a client has before the rate applies, in milliseconds. */
  readonly writeTimeoutMs: number
}

interface ClientConnection {
  requests: number
  /** Requests without a complete response. */
  pending: number
  /** The response to the latest request. */
  response: ResponseState
  backlog: Backlog | undefined
}

/** The bytes that the client had not read at one moment. */
interface Backlog {
  /** The backlog is read when the connection has sent this many bytes in all. */
  readonly upTo: number
  /** Milliseconds, monotonic. */
  readonly deadline: number
}

type ResponseState = Pick<ServerResponse, 'headersSent'>

/** The part of a socket that is used. */
type SocketProgress = Pick<Socket, 'bytesWritten' | 'writableLength'>

export class Connections<S extends SocketProgress = Socket> {
  #limits: ConnectionLimits
  #open = new Map<S, ClientConnection>()

  constructor(limits: ConnectionLimits) {
    this.#limits = limits
  }

  /**
   * Counts a request. `last`: its response must close the connection. `none`: it must not be served, as the connection
   * closes with an earlier response. `flood`: too many requests are pending.
   */
  begin(socket: S, response: ResponseState): 'serve' | 'last' | 'none' | 'flood' {
    let connection = this.#open.get(socket)
    if (connection === undefined) {
      connection = { requests: 0, pending: 0, response, backlog: undefined }
      this.#open.set(socket, connection)
    }
    const { maxRequestsPerConnection } = this.#limits
    if (connection.requests >= maxRequestsPerConnection) return 'none'
    if (connection.pending >= maxPending) return 'flood'
    connection.response = response
    connection.requests++
    connection.pending++
    return connection.requests === maxRequestsPerConnection ? 'last' : 'serve'
  }

  /** Makes sure that nothing more is served on the connection. */
  seal(socket: S): void {
    const connection = this.#open.get(socket)
    if (connection !== undefined) connection.requests = this.#limits.maxRequestsPerConnection
  }

  /** Called when a response has been sent completely. */
  end(socket: S): void {
    const connection = this.#open.get(socket)
    if (connection !== undefined) connection.pending--
  }

  /** Whether a request is pending. */
  isBusy(socket: S): boolean {
    return (this.#open.get(socket)?.pending ?? 0) > 0
  }

  /** Whether the response to the latest request has begun, which may not have arrived completely. */
  isResponding(socket: S): boolean {
    const connection = this.#open.get(socket)
    return connection !== undefined && connection.pending > 0 && connection.response.headersSent
  }

  delete(socket: S): void {
    this.#open.delete(socket)
  }

  /** The connections whose clients read their responses too slowly; to be called about once a second. */
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

/** The part of a socket that is used. */
interface RemoteSocket {
  readonly remoteAddress?: string | undefined
  once(event: 'close', listener: () => void): unknown
}

export class AddressConnections {
  #limit: UseLimit
  #isExempt: (address: string) => boolean

  /** Addresses for which `isExempt` are not counted. */
  constructor(limit: UseLimit, isExempt: (address: string) => boolean) {
    this.#limit = limit
    this.#isExempt = isExempt
  }

  /** Counts the connection until it closes; false if its client has as many as it may have. */
  admit(socket: RemoteSocket): boolean {
    const { remoteAddress } = socket
    // A connection that has closed already has no address.
    if (remoteAddress === undefined || this.#isExempt(remoteAddress)) return true
    return this.#limit.takeWhileOpen(networkOf(remoteAddress), socket)
  }
}

/** An IPv4 address, also in its IPv6 form (RFC 4291 §2.5.5.2), or the /64 network that an IPv6 client chooses from. */
export function networkOf(address: string): string {
  const [, mapped] = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address) ?? []
  if (mapped !== undefined) return mapped
  if (!isIPv6(address)) return address
  const [head = '', tail] = address.replace(/%.*$/, '').split('::')
  const groups = head === '' ? [] : head.split(':')
  const last = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? [] : new Array<string>(8 - groups.length - last.length).fill('0')
  return [...groups, ...zeros, ...last].slice(0, 4).join(':')
}
