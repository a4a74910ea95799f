// Targets that are commands, for a gateway of several workers: the processes belong to one worker, which the others reach
// by a socket. Each request has a connection of its own, on which lines of JSON go: the request, that it was sent, the
// response. The end of the connection cancels it.
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { createConnection, createServer, type Server, type Socket } from 'node:net'
import { isRefusal, Refusal } from '@svc/core'
import { listenOnPath } from '../http/listen.js'
import type { McpRequest, McpResponse } from '../mcp/servers.js'
import { isUpstreamError, UpstreamError } from '../upstream/response.js'
import type { Targets } from './config.js'
import type { StdioPlace } from './launcher.js'
import { LineSplitter } from './line-splitter.js'
import type { ProcessState } from './server-pool.js'
import type { StdioServers, TargetServers } from './servers.js'
import {
  errorIn,
  errorLine,
  type RequestLine,
  type ResponseLine,
  requestLine,
  responseOnLines,
  writeResponse,
} from './shared-lines.js'

interface SharedServersParts {
  readonly local: StdioServers
  /** The address on which the owner listens. */
  readonly path: string
  /** Whether the processes belong to this worker. */
  readonly isOwner: boolean
  readonly maxMessageBytes: number
  readonly drainMs: number
}

export class SharedServers implements TargetServers {
  #parts: SharedServersParts
  #server: Server | undefined
  #connections = new Set<Socket>()

  constructor(parts: SharedServersParts) {
    this.#parts = parts
  }

  async add(targets: Targets, place: StdioPlace): Promise<void> {
    const { local, path, isOwner } = this.#parts
    if (!isOwner) return
    await local.add(targets, place)
    if (this.#server !== undefined) return
    this.#server = createServer((socket) => void this.#serve(socket))
    // One that was killed leaves it behind.
    rmSync(path, { force: true })
    await listenOnPath(this.#server, path)
  }

  async keep(targets: Targets): Promise<void> {
    if (this.#parts.isOwner) await this.#parts.local.keep(targets)
  }

  warnings(): string[] {
    return this.#parts.local.warnings()
  }

  stateOf(server: string): ProcessState | undefined {
    return this.#parts.local.stateOf(server)
  }

  send(target: URL, request: McpRequest, onSent: () => void): Promise<McpResponse> {
    const { local, isOwner } = this.#parts
    return isOwner || target.protocol !== 'stdio:'
      ? local.send(target, request, onSent)
      : this.#sendToOwner(target, request, onSent)
  }

  /** Waits for the requests of other workers, which end theirs at the same time. */
  async close(): Promise<void> {
    this.#server?.close()
    const late = setTimeout(() => {
      for (const socket of this.#connections) socket.destroy()
    }, this.#parts.drainMs)
    await Promise.all([...this.#connections].map((socket) => once(socket, 'close')))
    clearTimeout(late)
    await this.#parts.local.close()
  }

  async #sendToOwner(target: URL, request: McpRequest, onSent: () => void): Promise<McpResponse> {
    const { signal } = request
    const socket = createConnection(this.#parts.path)
    let isSent = false
    const abort = (): void => void socket.destroy()
    signal.addEventListener('abort', abort)
    socket.once('close', () => signal.removeEventListener('abort', abort))
    // The reading of lines rejects with it.
    socket.on('error', () => undefined)
    if (signal.aborted) abort()
    socket.write(requestLine(target, request))
    const lines = linesOf(socket, this.#maxLineBytes)
    try {
      for (;;) {
        const { value: line, done } = await lines.next()
        if (done) throw new Error('the worker of the MCP server has ended the connection')
        if (line.kind === 'sent') {
          isSent = true
          onSent()
        } else if (line.kind === 'head') request.onHead?.()
        else if (line.kind === 'error') throw errorIn(line)
        else return responseOnLines(line, lines, socket)
      }
    } catch (error) {
      socket.destroy()
      if (signal.aborted) throw signal.reason
      if (isUpstreamError(error) || isRefusal(error)) throw error
      const message = 'The MCP server is not available at present; its worker is being replaced.'
      throw new UpstreamError(message, isSent ? 'unknown' : 'no', { cause: error })
    }
  }

  get #maxLineBytes(): number {
    // A text as a member of JSON is up to six times as long.
    return 6 * this.#parts.maxMessageBytes + 65_536
  }

  /** Serves a request of another worker. Does not reject. */
  async #serve(socket: Socket): Promise<void> {
    this.#connections.add(socket)
    const left = new AbortController()
    socket.once('close', () => {
      this.#connections.delete(socket)
      left.abort(new Refusal('CANCELLED', 'The caller has cancelled the request.'))
    })
    socket.on('error', () => undefined)
    try {
      const { value: request } = await linesOf<RequestLine>(socket, this.#maxLineBytes).next()
      if (request === undefined) return
      const { target, caller, ...rest } = request
      const sending: McpRequest = {
        ...rest,
        signal: left.signal,
        onHead: () => void socket.write('{"kind":"head"}\n'),
        ...(caller === undefined ? {} : { caller: () => caller }),
      }
      const sent = (): void => void socket.write('{"kind":"sent"}\n')
      const response = await this.#parts.local.send(new URL(target), sending, sent)
      await writeResponse(response, socket, this.#parts.maxMessageBytes)
    } catch (error) {
      socket.write(errorLine(error))
    } finally {
      socket.end()
    }
  }
}

async function* linesOf<Line = ResponseLine>(
  socket: Socket,
  maxBytes: number,
): AsyncGenerator<Line, undefined> {
  const splitter = new LineSplitter(maxBytes)
  const chunks: AsyncIterator<Buffer> = socket.iterator({ destroyOnReturn: false })
  for (let next = await chunks.next(); next.done !== true; next = await chunks.next()) {
    for (const line of splitter.push(next.value)) yield JSON.parse(line) as Line
  }
  return undefined
}
