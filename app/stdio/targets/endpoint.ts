// One target over stdio: a session begins with `initialize`, a POST carries one message, a GET opens a stream, a DELETE
// ends the session; from 2026-07-28 on there are only POSTs, without sessions.
import { randomUUID } from 'node:crypto'
import type { Clock, Logger, Meter } from '@svc/core'
import { isJsonObject, type JsonObject } from '@svc/core/json'
import { BoundedTable, unusedSessionMs } from '../../budget/bounded-table.js'
import { SESSION_ID_HEADER } from '../../http/header-names.js'
import { type ClientFacts, isAskable } from '../../mcp/handshake.js'
import { revisionIn } from '../../mcp/meta.js'
import { ownClientFacts } from '../../mcp/own-requests.js'
import { HANDSHAKE_REVISION, type Implementation, isStateless, rpcCodes } from '../../mcp/protocol.js'
import { methodNotFound, rpcError } from '../../mcp/rpc-error.js'
import { type Fields, isResponse } from '../../mcp/rpc-response.js'
import { type McpRequest, type McpResponse, messageResponse, noMessage } from '../../mcp/servers.js'
import { isUpstreamError } from '../../upstream/response.js'
import { budgetUserOf } from '../../upstream/send.js'
import { initializeResult, respond, sharedCapabilities } from './client-messages.js'
import { ClientSession } from './client-session.js'
import type { StdioTarget } from './config.js'
import type { DispatchedRequest } from './forward.js'
import type { Launcher } from './launcher.js'
import type { Connection } from './rpc-channel.js'
import { type ProcessState, ServerPool } from './server-pool.js'
import { type OnlyClient, StdioServer, type StdioServerOptions } from './stdio-server.js'

export interface StdioEndpointOptions {
  /** The name in `targets`. */
  readonly name: string
  readonly target: StdioTarget
  readonly clock: Clock
  readonly logger: Logger
  readonly meter?: Meter
  /** The name of the gateway as a client of processes that several clients share. */
  readonly client: Implementation
  readonly maxMessageBytes: number
  /** Time limit for the first message of a response, in milliseconds; undefined: that of the request. */
  readonly responseTimeoutMs: number | undefined
  readonly launcher: Launcher
}

/** Of requests of the gateway itself, which have a time limit of their own. */
const DEFAULT_TIMEOUT_MS = 300_000

/** Limits for the sessions of all callers, and of those of one tenant. */
const maxSessions = 10_000
const maxSessionsOfTenant = 5_000

export class StdioEndpoint {
  #options: StdioEndpointOptions
  #pool: ServerPool
  #client: ClientFacts
  #sessions: BoundedTable<ClientSession>
  #keeping: Promise<void> | undefined
  #isClosed = false

  constructor(options: StdioEndpointOptions) {
    this.#options = options
    this.#pool = new ServerPool(options.name, options.target, options.clock)
    this.#sessions = new BoundedTable({
      clock: options.clock,
      what: `sessions of the MCP server "${options.name}"`,
      limits: {
        limit: maxSessions,
        limitOfOwner: maxSessionsOfTenant,
        limitOfMember: options.target.max_sessions_per_caller,
      },
      unusedMs: unusedSessionMs,
      mayEnd: ({ isIdle }) => isIdle,
      onEnd: (session) => void this.#end(session),
    })
    this.#client = ownClientFacts(options.client)
  }

  get name(): string {
    return this.#options.name
  }

  /** The connection for requests of the gateway itself. Rejects with `UpstreamError`. */
  connection(): Promise<Connection> {
    return this.#shared('').supervisor.connection()
  }

  /** Starts the process that all callers share, and again whenever it ends. Its failures are in the log. */
  keepRunning(): Promise<void> {
    this.#keeping ??= this.#keep().finally(() => {
      this.#keeping = undefined
    })
    return this.#keeping
  }

  /** Whether its program is known to speak revisions with a handshake alone. */
  get isHandshakeAlone(): boolean {
    return this.#pool.program.isHandshakeAlone
  }

  get state(): ProcessState {
    return this.#pool.state
  }

  /** Whether the process that starts with the gateway has failed and is not running again. */
  get isDown(): boolean {
    const { target } = this.#options
    return (
      target.start === 'at_start' && this.#pool.limitOf('').hasFailed && !this.#shared('').supervisor.isReady
    )
  }

  async #keep(): Promise<void> {
    while (!this.#pool.limitOf('').isExhausted) {
      const { waitMs } = this.#pool.limitOf('')
      await new Promise((resolve) => setTimeout(resolve, waitMs).unref())
      if (this.#isClosed) return
      try {
        const { ended } = await this.connection()
        await ended
      } catch (error) {
        if (!isUpstreamError(error)) throw error
      }
    }
  }

  /** Rejects with `UpstreamError`, with `Refusal` (`RATE_LIMITED`), or with the reason of the signal. */
  async send(request: McpRequest, onSent: () => void): Promise<McpResponse> {
    const responseTimeoutMs =
      this.#options.responseTimeoutMs ?? request.responseTimeoutMs ?? DEFAULT_TIMEOUT_MS
    const exchange: DispatchedRequest = { request, onSent, responseTimeoutMs }
    const id = request.headers[SESSION_ID_HEADER]
    const { message } = request
    if (message !== undefined && isWithoutSession(message)) {
      return respond(message, this.#shared(this.#callerKey(request)), undefined, exchange)
    }
    if (message?.['method'] === 'initialize' && !isResponse(message)) return this.#begin(message, exchange)
    if (typeof id !== 'string')
      return refusedResponse(400, 'Mcp-Session-Id is missing; a session begins with initialize.')
    const session = this.#sessions.use(id)
    if (session === undefined) return refusedResponse(404, 'There is no such session; begin a new one.')
    if (request.method === 'DELETE') {
      await this.#end(session)
      return noMessage(204)
    }
    if (message !== undefined) return respond(message, session.server, session, exchange)
    await session.server.connection(request.signal)
    onSent()
    return session.open(request.signal)
  }

  forgetFailures(): void {
    this.#pool.forgetFailures()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all(this.#sessions.all().map((session) => this.#end(session)))
    await this.#pool.close()
  }

  async #begin(message: JsonObject, exchange: DispatchedRequest): Promise<McpResponse> {
    const params = isJsonObject(message['params']) ? message['params'] : {}
    const { protocolVersion } = params
    const { request } = exchange
    const mayTranslate = request.inputFor !== undefined || !isAskable(clientIn(params).capabilities)
    const isAlone = this.#options.target.isolate === 'session'
    if (!mayTranslate && isAlone && this.#pool.program.isStatelessAlone)
      return refusedHandshake(message, exchange)
    const id = randomUUID()
    const session = this.#session(id, params, request)
    let server: Connection['server']
    try {
      server = (await session.server.connection(request.signal)).server
    } catch (error) {
      await this.#end(session)
      throw error
    }
    if (!mayTranslate && server.isStateless) {
      await this.#end(session)
      return refusedHandshake(message, exchange)
    }
    exchange.onSent()
    request.call?.firstByte()
    const isPassedOn = session.server.isExclusive && !server.isStateless
    const capabilities = isPassedOn ? server.capabilities : sharedCapabilities(server)
    const result = initializeResult(server, protocolVersion, capabilities)
    return messageResponse({ message: { jsonrpc: '2.0', id: message['id'], result } }, 200, {
      [SESSION_ID_HEADER]: id,
    })
  }

  #session(id: string, params: JsonObject, request: McpRequest): ClientSession {
    const client = clientIn(params)
    // The gateway's own requests have no caller.
    const user = budgetUserOf(request)
    this.#sessions.makeRoom(user)
    const caller = this.#callerKey(request)
    const server =
      this.#options.target.isolate === 'session'
        ? this.#pool.of(`session ${id}`, () => {
            const onExit = (): void => {
              const ended = this.#sessions.get(id)
              if (ended !== undefined) void this.#end(ended)
            }
            const onlyClient: OnlyClient = (received) => this.#sessions.get(id)?.deliver(received) ?? false
            return this.#server(caller, { client, onExit, onlyClient })
          })
        : this.#shared(caller)
    const inputFor = isAskable(client.capabilities) ? request.inputFor : undefined
    return this.#sessions.add(id, user, new ClientSession(id, server, client, inputFor))
  }

  async #end(session: ClientSession): Promise<void> {
    if (!this.#sessions.delete(session.id)) return
    session.end()
    if (session.server.isExclusive) await this.#pool.remove(`session ${session.id}`)
  }

  /** The server of all callers or, if each caller has a process, that of one caller. */
  #shared(caller: string): StdioServer {
    return this.#pool.of(`caller ${caller}`, () =>
      this.#server(caller, { client: this.#client, onExit: () => undefined }),
    )
  }

  #server(
    caller: string,
    options: Pick<StdioServerOptions, 'client' | 'onExit' | 'onlyClient'>,
  ): StdioServer {
    const limit = this.#pool.limitOf(caller)
    const { program } = this.#pool
    return new StdioServer({
      ...this.#options,
      ...options,
      limit,
      program,
      makeRoom: () => this.#pool.makeRoom(),
    })
  }

  #callerKey(request: McpRequest): string {
    return this.#options.target.isolate === 'gateway' ? '' : (budgetUserOf(request)?.member ?? '')
  }
}

function isWithoutSession({ params }: Fields): boolean {
  const revision = revisionIn(params)
  return revision !== undefined && isStateless(revision)
}

/** The client's own `initialize`, unchecked: the gateway need not know the revision; the process judges the rest. */
function clientIn({ protocolVersion, capabilities = {}, clientInfo = {} }: JsonObject): ClientFacts {
  const revision = String(protocolVersion)
  return { revision: isStateless(revision) ? HANDSHAKE_REVISION : revision, capabilities, clientInfo }
}

/**
 * The process asks its clients in results, of which a session knows nothing: a sender that knows both eras (`inputFor`) passes
 * on what it asks.
 */
function refusedHandshake({ id, method }: JsonObject, { onSent }: DispatchedRequest): McpResponse {
  onSent()
  return messageResponse({ message: methodNotFound(id, method) }, 404)
}

function refusedResponse(status: number, message: string): McpResponse {
  return messageResponse({ message: rpcError(null, rpcCodes.invalidRequest, message) }, status)
}
