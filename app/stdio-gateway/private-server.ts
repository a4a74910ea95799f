// An HTTP server that no other process can reach: its connections are pairs of streams in this process.
import { createServer, type IncomingMessage, type OutgoingHttpHeaders, request, type Server } from 'node:http'
import { type Duplex, duplexPair } from 'node:stream'
import type { NodeHandler } from '../in-process/mount.js'

export interface PrivateRequest {
  readonly method: 'POST' | 'GET' | 'DELETE'
  readonly path: string
  readonly headers: OutgoingHttpHeaders
  readonly body?: string
  /** Closes the connection, as a client that disconnects. */
  readonly signal?: AbortSignal
}

export class PrivateServer {
  #server: Server

  constructor(handler: NodeHandler) {
    this.#server = createServer({ joinDuplicateHeaders: true }, handler)
  }

  /** Resolves with the head of the answer. Each request has a connection of its own. */
  send({ body, signal, ...head }: PrivateRequest): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const outgoing = request({
        ...head,
        host: 'localhost',
        createConnection: () => this.#connect(),
        ...(signal === undefined ? {} : { signal }),
      })
      outgoing.once('response', resolve)
      outgoing.once('error', reject)
      outgoing.end(body)
    })
  }

  #connect(): Duplex {
    const [client, server] = duplexPair()
    // One end does not learn by itself that the other is gone.
    client.once('close', () => server.destroy())
    server.once('close', () => client.destroy())
    this.#server.emit('connection', server)
    return client
  }
}
