// Requests to single servers on behalf of a request to several: each is a call, as a request to /mcp/<server> is.
import type { IncomingHttpHeaders } from 'node:http'
import {
  type Call,
  type Clock,
  failed,
  type MaybePromise,
  type Outcome,
  type Refusal,
  type RequestedResource,
} from '@svc/core'
import { isJsonObject, type JsonObject } from '@svc/core/json'
import type { CallControl } from '@svc/core/pipeline'
import { BoundedMap } from '@svc/core/store'
import type { HeldCalls } from '../escalations/elicitation/held-calls.js'
import { SESSION_ID_HEADER } from '../http/header-names.js'
import type { ElicitationModes, ElicitationResponse, McpExchange, Translation } from '../mcp/exchange.js'
import {
  type ClientFacts,
  discover,
  isSessionLost,
  performHandshake,
  type SendOwn,
  type ServerDescription,
  type ServerReply,
  type ServerSession,
} from '../mcp/handshake.js'
import type { Encoding } from '../mcp/message-outcome.js'
import { isStateless, MAX_DESCRIPTION, type RequestId } from '../mcp/protocol.js'
import type { McpProxy } from '../mcp/proxy.js'
import type { Fields } from '../mcp/rpc-response.js'
import type { InputReceivers } from '../mcp/servers.js'

export interface ServerRequest {
  readonly server: string
  readonly method: 'POST' | 'GET' | 'DELETE'
  /** The session id in them is the one that clients get for the server. */
  readonly headers: IncomingHttpHeaders
  /** The client's id of the request, if `message` has another. */
  readonly clientId?: RequestId
  /** The client's session, in which it may cancel the request; undefined for the gateway's own requests. */
  readonly clientSession?: string | undefined
  /** Null for a GET or a DELETE. */
  readonly message: JsonObject | null
  readonly translation?: Translation
  readonly inputFor?: InputReceivers
  /** The endpoint that the client uses, which challenges name. */
  readonly used?: RequestedResource
  /** How the person at the client can be asked about the call; if not given, nobody can. */
  readonly modes?: ElicitationModes
  /** The person's response; set if the call is repeated. */
  readonly elicited?: ElicitationResponse | undefined
  /** Runs when the call exists, before the stages. */
  onCall?(call: Call): void
  /** Runs when the stages have allowed the call, before it is sent. */
  onJudged?(call: Call): void
}

export interface ServerCalls {
  /** Runs one call; the stages do not end before `respond` has resolved. */
  run(
    request: ServerRequest,
    respond: (call: CallControl, outcome: Outcome, encoding: Encoding) => MaybePromise<void>,
  ): Promise<void>
  /** Asks people about calls that were not sent. */
  readonly heldCalls: HeldCalls
  readonly mcp: Pick<McpProxy, 'askedClient' | 'requests' | 'running'>
  /** Records the refusal of a request that reaches no server, and responds with it. */
  refuse(refusal: Refusal, exchange: McpExchange, used: RequestedResource): Promise<void>
}

/** The response of one server, read whole. */
export interface Reply extends ServerReply {
  readonly outcome: Outcome
  /** The JSON-RPC response; undefined if there is none. */
  readonly response: Fields | undefined
  readonly isSessionLost: boolean
}

/** The call ends after `timeoutMs`, if given: a server that hangs must not delay the others. */
export async function replyTo(
  calls: ServerCalls,
  request: ServerRequest,
  timeoutMs?: number,
): Promise<Reply> {
  let reply: Reply | undefined
  const onCall = (call: Call): void => {
    if (timeoutMs !== undefined) abortAfter(call, timeoutMs)
    request.onCall?.(call)
  }
  await calls.run({ ...request, onCall }, async (call, outcome, encoding) => {
    const { whole, response } = await encoding.response(outcome, call)
    const { [SESSION_ID_HEADER]: sessionId } = whole.headers
    reply = {
      outcome,
      status: whole.status,
      sessionId: typeof sessionId === 'string' ? sessionId : undefined,
      response: response?.message,
      isSessionLost: isSessionLost(whole.status, response?.message),
      result: response?.message['result'],
    }
  })
  if (reply === undefined) throw new Error('a call has no outcome')
  return reply
}

function abortAfter(call: Call, ms: number): void {
  const timer = setTimeout(
    () => call.abort('UPSTREAM_UNREACHABLE', 'The server did not respond in time.'),
    ms,
  ).unref()
  call.afterSettle(() => clearTimeout(timer))
}

// The link of one client to one server: a session with the server, or none (2026-07-28).

/** The session id is the one that clients get. */
export interface ServerLink extends ServerSession, ServerDescription {
  readonly server: string
}

/** The server refused the client's handshake or could not be reached. */
export class ServerUnavailable extends Error {
  override readonly name = 'ServerUnavailable'

  constructor(
    readonly server: string,
    readonly reply: Reply,
  ) {
    super(reasonOf(reply))
  }
}

/** Observes the calls of one server; the rules of the first judged call tell which servers the caller may use. */
export type CallHooks = Pick<ServerRequest, 'onCall' | 'onJudged'>

export interface LinkOptions {
  readonly calls: ServerCalls
  /** Observes the calls of the handshake. */
  readonly hooks: CallHooks
  /** Headers of the client's request, without those of MCP and of a single call. */
  readonly headers: IncomingHttpHeaders
  readonly timeoutMs: number
  /** Whether the server has refused the client's `initialize`. */
  readonly isHandshakeRefused: boolean
}

/** Rejects with `ServerUnavailable`. */
export async function openLink(
  server: string,
  client: ClientFacts,
  options: LinkOptions,
): Promise<ServerLink> {
  const send: SendOwn<Reply> = async (message, headers) => {
    const request = {
      ...options.hooks,
      server,
      method: 'POST',
      headers: { ...options.headers, ...headers },
      message: { jsonrpc: '2.0', ...message },
      inputFor: isStateless(client.revision) ? 'several' : 'one',
    } as const
    const reply = await replyTo(options.calls, request, options.timeoutMs)
    if (message.id !== undefined && reply.outcome.kind !== 'completed')
      throw new ServerUnavailable(server, reply)
    return reply
  }
  const shake = options.isHandshakeRefused ? discover : performHandshake<Reply>
  const { reply, session } = await shake(send, client)
  if (session === undefined) throw new ServerUnavailable(server, reply)
  // The client's session keeps the description.
  if (JSON.stringify(session).length > MAX_DESCRIPTION) {
    const message = `The server's description of itself is over ${MAX_DESCRIPTION} characters.`
    throw new ServerUnavailable(server, { ...reply, outcome: failed('PAYLOAD_TOO_LARGE', message) })
  }
  return { server, ...session }
}

function reasonOf({ outcome, status, response }: Reply): string {
  if (outcome.kind !== 'completed') return outcome.message
  const error = response?.['error']
  const message = isJsonObject(error) ? error['message'] : undefined
  return typeof message === 'string' ? message : `The server responded with the status ${status}.`
}

// All clients share the knowledge about which servers respond: nobody waits for a server that did not respond, and one that
// failed is tried again after growing times.

/** Time after each failure in a row before lists ask the server again, in milliseconds; the last one repeats. */
const backOffMs = [10_000, 30_000, 60_000, 120_000, 300_000] as const
const maxServers = 10_000

interface Trouble {
  readonly failures: number
  /** Monotonic time, in milliseconds. */
  readonly until: number
  readonly reason: string
}

export class ServerHealth {
  /** Whether a server may have an entry. */
  hasTroubles = false
  #clock: Pick<Clock, 'monotonic'>
  /** By server; one that responds has no entry. */
  #troubles = new BoundedMap<string, Trouble>(maxServers)

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
  }

  /** Whether the server did not respond the last time, so that nobody waits for it. */
  isInTrouble(server: string): boolean {
    return this.#troubles.has(server)
  }

  /** The reason for which lists do not ask the server now; undefined if they may. */
  backingOff(server: string): string | undefined {
    const trouble = this.#troubles.get(server)
    return trouble !== undefined && this.#clock.monotonic() < trouble.until ? trouble.reason : undefined
  }

  /** A client has waited for the server as long as it may. */
  noteSlow(server: string): void {
    this.hasTroubles = true
    if (!this.#troubles.has(server)) this.#troubles.set(server, { failures: 0, until: 0, reason: '' })
  }

  /** Learns from a call of the server. A call that was not sent, or that its client ended, tells nothing. */
  observe(server: string, outcome: Outcome): void {
    if (outcome.kind === 'completed') this.#troubles.delete(server)
    else if (outcome.kind === 'failed' && outcome.code === 'UPSTREAM_UNREACHABLE')
      this.#noteFailure(server, outcome.message)
  }

  /** Calls that fail while the server is left alone are not further attempts. */
  #noteFailure(server: string, reason: string): void {
    if (this.backingOff(server) !== undefined) return
    this.hasTroubles = true
    const failures = (this.#troubles.get(server)?.failures ?? 0) + 1
    const ms = backOffMs[Math.min(failures, backOffMs.length) - 1] ?? 0
    this.#troubles.set(server, { failures, until: this.#clock.monotonic() + ms, reason })
  }
}
