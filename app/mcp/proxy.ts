// Proxies the Model Context Protocol (Streamable HTTP): reads requests, sends them upstream, filters the responses.
import {
  after,
  type Call,
  type CallRequest,
  type Clock,
  type Completed,
  type Credential,
  type Denied,
  denied,
  type Failed,
  type Ids,
  isDeclaredHarmless,
  isRefusal,
  isStream,
  type MaybePromise,
  type Outcome,
  requestDefinitions,
  sideEffects,
} from '@svc/core'
import type { CallControl } from '@svc/core/pipeline'
import type { ClientExchange } from '../http/client-exchange.js'
import { type EventStreamRules, eventStreamRules } from '../http/event-stream-rules.js'
import { SESSION_ID_HEADER } from '../http/header-names.js'
import type { BufferedResponse } from '../http/response.js'
import { outcomeOfError } from '../upstream/invoke.js'
import { isUpstreamError } from '../upstream/response.js'
import { responseTimeoutOf } from '../upstream/response-limits.js'
import { sendCall, upstreamHeaders } from '../upstream/send.js'
import { AccessChecks } from './access-checks.js'
import { ClientRequests, clientOfCall, isForGateway } from './client-requests.js'
import { type AskedClient, GatewayRounds, progressTokenOf } from './elicitation.js'
import { declaredModes, isStatelessExchange, type McpExchange, mcpExchange, modesTag } from './exchange.js'
import type { ServerSession } from './handshake.js'
import { addHeadersUpstream } from './headers.js'
import { type AnnotationCache, UiResources } from './learned-values.js'
import type { RpcResponse } from './message.js'
import { type Denials, encodeRefusal, type MessageOutcome, readMessageOutcome } from './message-outcome.js'
import { withoutWithheld, withTrace } from './meta.js'
import {
  createSend,
  endSession,
  OwnLists,
  type OwnRequestOptions,
  subscribingServers,
} from './own-requests.js'
import { HANDSHAKE_REVISION, type Implementation } from './protocol.js'
import { type RequestBody, type RequestRules, readRequest } from './request.js'
import type { LearningCaches } from './response-filter.js'
import { outcomeOfResponse, type ResponseOptions } from './response-outcome.js'
import { ResumableCalls } from './resumed-responses.js'
import { RunningCalls } from './running-calls.js'
import { ServerRequests } from './server-requests.js'
import { ServerVersions, versionProbe } from './server-versions.js'
import type { McpRequest, McpServers } from './servers.js'
import { isOwnSession, type SessionBinding } from './session-binding.js'
import type { SharedState } from './shared-state.js'
import { LISTEN_METHOD } from './subject.js'
import { KnownTasks } from './tasks.js'
import { McpToolClient } from './tool-client.js'

export interface McpProxyOptions {
  readonly servers: McpServers
  readonly clock: Clock
  readonly ids: Ids
  readonly state: SharedState
  readonly annotations: AnnotationCache
  /** Size of the response to one call, and of each event of a notification stream. */
  readonly maxResponseBytes: number
  readonly streams: EventStreamRules
  /** The name that servers see in requests for their version. */
  readonly client: Implementation
  /** Time limit for asking a server for its version, in milliseconds. */
  readonly probeTimeoutMs: number
  /** Params of guarded methods that the policy passes, beside those of the protocol. */
  readonly passParams: readonly string[]
  readonly denials: Denials
  /** Called for the first request with a session; rejects if the key cannot be read. */
  readonly sessions: () => MaybePromise<SessionBinding>
}

export class McpProxy {
  #parts: McpProxyOptions
  #own: OwnRequestOptions
  #subscribing: McpServers
  #lists: OwnLists
  #versions: ServerVersions
  #access: AccessChecks
  #responses: ResponseOptions
  #rules: RequestRules
  #tools: McpToolClient
  #sessions: SessionBinding | undefined
  readonly running: RunningCalls
  /** The gateway's requests to clients on streams. */
  readonly requests: ClientRequests
  /** The gateway's own requests for input in results. */
  readonly rounds: GatewayRounds

  constructor(parts: McpProxyOptions) {
    this.#parts = parts
    const { servers, client, maxResponseBytes, clock, ids, annotations, state, streams, denials, sessions } =
      parts
    this.running = new RunningCalls(state, clock, streams.abandonedMs)
    this.#own = { servers, client, timeoutMs: parts.probeTimeoutMs, maxBytes: maxResponseBytes }
    this.#lists = new OwnLists(this.#own, clock)
    this.#subscribing = subscribingServers(servers, maxResponseBytes)
    this.#versions = new ServerVersions(versionProbe(this.#own), state, clock)
    const caches: LearningCaches = {
      versions: this.#versions,
      interfaces: new UiResources(state, clock),
      annotations,
      tasks: new KnownTasks(state),
      sessions,
      requests: new ServerRequests(this.#own, state, sessions),
    }
    this.#access = new AccessChecks(caches)
    const resumableCalls = new ResumableCalls(state, clock)
    this.#responses = { resumableCalls, caches, clock, ids, maxResponseBytes, denials }
    this.#tools = new McpToolClient(this.#own, caches.requests, clock)
    this.requests = new ClientRequests(state)
    this.rounds = new GatewayRounds(state, sessions)
    this.#rules = {
      versions: this.#versions,
      passParams: parts.passParams,
      interfaces: caches.interfaces,
      rounds: this.rounds,
      running: this.running,
      openSession: this.#openSession,
    }
  }

  /** The request of an exchange; `body` is null unless the method is POST. Rejects with `Refusal`. */
  async read(call: CallControl, exchange: McpExchange, body: RequestBody | null): Promise<CallRequest> {
    const request = await readRequest(call, exchange, body, this.#rules)
    if (exchange.message?.type === 'response') this.#tellServerIfDenied(call, exchange, exchange.message)
    const { annotations } = this.#parts
    if (request.kind === 'tool' || request.kind === 'prompt')
      call.set(requestDefinitions, (kind) => this.#lists.of(exchange.upstream(), exchange.credential, kind))
    if (request.kind === 'tool' && annotations.isUsed)
      await annotations.refresh(exchange.upstream(), request.reference)
    return request
  }

  /** The version in a server's `serverInfo`. Rejects with `Refusal`. */
  versionOf(upstream: URL, credential: () => Promise<Credential | undefined>): MaybePromise<string> {
    return this.#versions.of(upstream, credential)
  }

  /** Whether the server of a request is one of the gateway's processes that speaks revisions with a handshake alone. */
  isHandshakeAlone(upstream: URL): boolean {
    return this.#parts.servers.isHandshakeAlone?.(upstream) === true
  }

  /** The state that the gateways of one deployment share, and their key. */
  get shared(): Pick<McpProxyOptions, 'state' | 'sessions'> {
    return this.#parts
  }

  /** Ends a client's session at a server; its id is the one that the client got. Rejects as the dispatcher does. */
  async endSession(upstream: URL, credential: Credential | undefined, session: ServerSession): Promise<void> {
    const sealed = (await this.#parts.sessions()).open(String(session.sessionId)).sealed
    if (sealed === undefined) return
    const { id: sessionId } = sealed
    const signal = AbortSignal.timeout(this.#own.timeoutMs)
    await endSession(createSend(this.#own, upstream, credential, { signal }), { ...session, sessionId })
  }

  /** To be awaited before the call of a tool is judged; undefined if nothing has to be read. Rejects with `Refusal`. */
  refreshAnnotations(upstream: URL, { reference }: CallRequest): Promise<void> | undefined {
    return this.#parts.annotations.refresh(upstream, reference)
  }

  /** The upstream half of a call of the invoke protocol to an MCP server. */
  dispatchTool(call: CallControl, upstream: URL): Promise<Outcome> {
    return this.#tools.dispatch(call, upstream)
  }

  /** The upstream half of a call whose `mcpExchange` slot is filled. */
  async dispatch(call: CallControl): Promise<Outcome> {
    const exchange = call.need(mcpExchange)
    const request = await call.request()
    const refused = await this.#access.refusalOf(call, exchange, request)
    if (refused !== undefined) return refused
    const { message } = exchange
    if (message?.type === 'response' && isForGateway(message)) return this.#takeReply(call, exchange, message)
    if (exchange.method === 'DELETE' && isOwnSession(exchange)) {
      call.markSent('no')
      return { ...withoutBody(405), headers: { allow: 'GET, POST' } }
    }
    if (message?.type !== 'notification') await this.running.beforeSend(call, exchange)
    else if (!(await this.running.isForServer(call))) {
      call.markSent('no')
      return withoutBody(202)
    }
    const sending = requestToServer(call, exchange, request)
    const unheld = await call.commitHolds()
    if (unheld !== undefined) return unheld
    try {
      // A client without sessions subscribes at a server with sessions.
      const isSubscribing =
        request.method === LISTEN_METHOD &&
        exchange.translation?.isClientStateless === true &&
        !isStatelessExchange(exchange)
      const servers = isSubscribing ? this.#subscribing : this.#parts.servers
      const response = await sendCall(servers, exchange.upstream(), sending)
      return await this.#toClient(
        call,
        exchange,
        await outcomeOfResponse(response, { call, exchange, request }, this.#responses),
      )
    } catch (error) {
      return outcomeOfError(call, error)
    }
  }

  /** A response of the client that does not reach the server: without another one the server, and its call, would wait. */
  #tellServerIfDenied(call: Call, exchange: McpExchange, message: RpcResponse): void {
    if (isForGateway(message) || exchange.connection !== undefined) return
    call.afterSettle(async ({ outcome, sent }) => {
      if (outcome.kind === 'completed' || sent !== 'no') return
      if (this.#access.ofSession(call, exchange) !== undefined) return
      // The message of the denial may have what the server is not to get.
      const reason = (outcome.kind === 'denied' ? outcome.denial?.reason : undefined) ?? outcome.code
      const text = `The gateway refuses the response of the client: ${reason}`
      try {
        await this.#responses.caches.requests.refuse(call, exchange, message.id, text)
      } catch (error) {
        // A server that cannot be reached does not wait longer than it wants.
        if (!isUpstreamError(error) && !isRefusal(error)) throw error
      }
    })
  }

  /** The client's response to the gateway itself. */
  async #takeReply(call: CallControl, exchange: McpExchange, reply: RpcResponse): Promise<Outcome> {
    call.markSent('no')
    if (await this.requests.give(clientOfCall(call, exchange), reply)) return withoutBody(202)
    return denied('BAD_REQUEST', 'No request of the gateway waits for this response.')
  }

  /** The client of a call that was not sent, to be asked on the call's own stream. */
  askedClient(call: Call, client: ClientExchange): AskedClient {
    const exchange = call.need(mcpExchange)
    const { message } = exchange
    return {
      ...this.running.hold(call, exchange),
      name: clientOfCall(call, exchange),
      exchange: client,
      progressToken: message?.type === 'request' ? progressTokenOf(message.params) : undefined,
    }
  }

  encodeRefusal(exchange: McpExchange, outcome: Denied | Failed, call: Call): BufferedResponse {
    return encodeRefusal(exchange, outcome, call, this.#parts.denials)
  }

  readOutcome(exchange: McpExchange, outcome: Outcome, call: Call): Promise<MessageOutcome> {
    return readMessageOutcome(exchange, outcome, call, this.#parts.denials)
  }

  /** Replaces the client's session id by the server's. Rejects if the key cannot be read. */
  readonly #openSession = async (exchange: McpExchange): Promise<void> => {
    const { headers } = exchange
    this.#sessions ??= await this.#parts.sessions()
    exchange.session = this.#sessions.open(String(headers[SESSION_ID_HEADER]))
    const { id } = exchange.session.sealed ?? {}
    if (id !== undefined) exchange.headers = { ...headers, [SESSION_ID_HEADER]: id }
  }

  /** Replaces the server's session id by the client's. */
  async #toClient(call: Call, exchange: McpExchange, outcome: Outcome): Promise<Outcome> {
    if (outcome.kind !== 'completed') return outcome
    if (isStream(outcome.body)) call.set(eventStreamRules, this.#parts.streams)
    const id = outcome.headers[SESSION_ID_HEADER]
    const { message } = exchange
    const isHandshake = message?.type === 'request' && message.method === 'initialize'
    const isBegun = typeof id === 'string' || (isHandshake && beginsOwnSession(exchange, outcome))
    if (!isBegun) return outcome
    const shown = await this.#boundId(call, exchange, typeof id === 'string' ? id : undefined)
    exchange.learned.sessionId = shown
    return { ...outcome, headers: { ...outcome.headers, [SESSION_ID_HEADER]: shown } }
  }

  #boundId(call: Call, exchange: McpExchange, id: string | undefined): MaybePromise<string> {
    const { session } = exchange
    // It was checked that the session of the request is the caller's.
    if (session !== undefined && id === session.sealed?.id) return session.token
    return after(this.#parts.sessions(), (sessions) => sessions.bind(call, id, modesIn(exchange)))
  }
}

/** Whether a session of the gateway's own begins: its server gives none, and the client can be asked. */
function beginsOwnSession(exchange: McpExchange, { status }: Completed): boolean {
  return exchange.modes === undefined && status === 200 && modesIn(exchange) !== ''
}

/** The request as the server gets it. */
function requestToServer(
  call: CallControl,
  exchange: McpExchange,
  request: CallRequest,
): McpRequest & { readonly call: CallControl } {
  const headers = upstreamHeaders(call, request)
  addHeadersUpstream(headers, exchange)
  const { message, method, connection, inputFor } = exchange
  // A server in this process gets no headers.
  const whole = message && withTrace(call, withoutWithheld(call, message.whole), connection !== undefined)
  return {
    method,
    headers,
    message: whole,
    text: whole === message?.whole ? exchange.text : undefined,
    inputFor,
    eventsMayPause: true,
    signal: call.abortState,
    call,
    responseTimeoutMs: responseTimeoutOf(call),
    mayRunTwice: () => isDeclaredHarmless(request, call.get(sideEffects)),
  }
}

/** The modes of elicitation that the client declares when it begins a session. */
function modesIn({ message }: McpExchange): string {
  if (message?.type !== 'request' || message.method !== 'initialize') return ''
  return modesTag(declaredModes(message.params['capabilities'], HANDSHAKE_REVISION))
}

/**
 * For what the server need not get: 202 for a message, and 405 for the end of a session of the gateway's own, which keeps
 * nothing of it and so could not respond 404 later (MCP 2025-11-25, "Session Management").
 */
function withoutBody(status: 202 | 405): Completed {
  return { kind: 'completed', status, headers: {}, body: new Uint8Array(), digest: null }
}
