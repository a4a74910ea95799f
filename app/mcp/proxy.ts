// Proxies the Model Context Protocol (Streamable HTTP): reads requests, sends them upstream, filters the answers.
import {
  type Call,
  type CallRequest,
  type Clock,
  type Credential,
  type Denied,
  denied,
  type Failed,
  type Ids,
  isStream,
  type Outcome,
} from '@svc/core'
import type { WholeAnswer } from '../http/answer.js'
import { type EventStreamRules, eventStreamRules } from '../http/event-stream-rules.js'
import type { UpstreamDispatcher } from '../upstream/dispatcher.js'
import { upstreamHeaders } from '../upstream/headers.js'
import { outcomeOfFault } from '../upstream/invoke.js'
import { sendCall } from '../upstream/send.js'
import type { AnnotationCache } from './annotation-cache.js'
import { type AnswerLimits, outcomeOf, type ResponseContext } from './answer.js'
import { encodeRefusal, rpcError } from './encode-refusal.js'
import { disconnectCancels, isStatelessExchange, type McpExchange, mcpExchange } from './exchange.js'
import type { Implementation } from './implementation.js'
import { LateResponses, type LateResponsesParts } from './late-responses.js'
import { OpenCalls } from './open-calls.js'
import { readRequest, referenceOf } from './request.js'
import { type LearningCaches, ResponseFilter } from './response-filter.js'
import { RunningCalls } from './running-calls.js'
import { ServerVersions } from './server-versions.js'
import type { SessionBinding } from './session-binding.js'
import type { SharedState } from './shared-state.js'
import { LISTEN_METHOD, resourceSubscriptions } from './subject.js'
import { KnownTasks } from './tasks.js'
import { McpToolClient } from './tool-client.js'
import { withTrace } from './trace-context.js'
import { pathOf, versionProbe } from './version-probe.js'
import { headersUpstream } from './wire-headers.js'
import { withoutWithheld } from './withheld-meta.js'

export interface McpProxyOptions {
  readonly dispatcher: UpstreamDispatcher
  readonly clock: Clock
  readonly ids: Ids
  readonly state: SharedState
  readonly annotations: AnnotationCache
  readonly limits: AnswerLimits
  readonly streams: EventStreamRules
  /** The name under which servers are asked for their version. */
  readonly client: Implementation
  /** Time limit for asking a server for its version, in milliseconds. */
  readonly probeTimeoutMs: number
  /** Params of guarded methods that the policy passes, beside those of the protocol. */
  readonly passParams: readonly string[]
  /** Called for the first request with a session; rejects where the key cannot be read. */
  sessions(): Promise<SessionBinding>
}

export class McpProxy {
  #parts: McpProxyOptions
  #versions: ServerVersions
  #caches: LearningCaches
  /** For responses on other streams than their call's. */
  #late: LateResponsesParts
  #running: RunningCalls
  #tools: McpToolClient
  #tasks: KnownTasks

  constructor(parts: McpProxyOptions) {
    this.#parts = parts
    const { dispatcher, client, limits, clock, ids, annotations, state, streams, probeTimeoutMs } = parts
    this.#tasks = new KnownTasks(state)
    this.#running = new RunningCalls(state, streams.abandonedMs)
    const probe = versionProbe({
      dispatcher,
      client,
      timeoutMs: probeTimeoutMs,
      maxBytes: limits.maxAnswerBytes,
    })
    this.#versions = new ServerVersions(probe, state, clock)
    this.#caches = {
      versions: this.#versions,
      annotations,
      tasks: this.#tasks,
      sessions: () => this.#parts.sessions(),
    }
    this.#late = { openCalls: new OpenCalls(state, clock), caches: this.#caches, clock, ids }
    this.#tools = new McpToolClient({
      dispatcher,
      client,
      maxAnswerBytes: limits.maxAnswerBytes,
      timeoutMs: probeTimeoutMs,
    })
  }

  /** The request of an exchange; `bytes` is the body of a POST, null otherwise. Rejects with `Refusal`. */
  async read(call: Call, exchange: McpExchange, bytes: Uint8Array | null): Promise<CallRequest> {
    const { passParams } = this.#parts
    const request = await readRequest(call, exchange, bytes, { versions: this.#versions, passParams })
    const refreshing =
      request.kind === 'tool' ? this.refreshAnnotations(exchange.upstream(), request) : undefined
    if (refreshing !== undefined) await refreshing
    return request
  }

  /** The version in a server's `serverInfo`. Rejects with `Refusal`. */
  async versionOf(upstream: URL, credential: () => Promise<Credential | undefined>): Promise<string> {
    return this.#versions.of(upstream, credential)
  }

  /** To be awaited before the call of a tool is judged; undefined where nothing has to be read. Rejects with `Refusal`. */
  refreshAnnotations(upstream: URL, { reference }: CallRequest): Promise<void> | undefined {
    return this.#parts.annotations.refresh(upstream, reference)
  }

  /** The upstream half of a call of the invoke protocol to an MCP server. */
  dispatchTool(call: Call, upstream: URL): Promise<Outcome> {
    return this.#tools.dispatch(call, upstream)
  }

  /** The upstream half of a call whose `mcpExchange` slot is filled. */
  async dispatch(call: Call): Promise<Outcome> {
    const exchange = call.need(mcpExchange)
    const request = await call.request()
    const foreign = await this.#checkSession(call, exchange)
    if (foreign !== undefined) return foreign
    const upstream = exchange.upstream()
    const unusable = await this.#checkTasks(call, exchange, upstream)
    if (unusable !== undefined) return unusable
    const unsubscribable = await this.#checkListen(call, exchange, request, upstream)
    if (unsubscribable !== undefined) return unsubscribable
    const headers = { ...upstreamHeaders(call, request), ...headersUpstream(exchange) }
    const { message, method, isHeaderless = false } = exchange
    const whole = message && withTrace(call, withoutWithheld(call, message.whole), isHeaderless)
    const body = whole === undefined ? {} : { body: JSON.stringify(whole) }
    const refused = await call.commitHolds()
    if (refused !== undefined) return refused
    this.#running.add(call, exchange)
    try {
      const sending = {
        method,
        path: pathOf(upstream),
        headers,
        ...body,
        eventsMayPause: true,
        signal: call.abortState,
      }
      const answer = await sendCall(call, this.#parts.dispatcher, upstream, sending)
      const outcome = await outcomeOf(
        answer,
        this.#responseContext(call, exchange, request),
        this.#parts.limits,
      )
      if (message?.type === 'notification') await this.#running.cancel(call, exchange, message)
      if (outcome.kind === 'completed' && isStream(outcome.body))
        call.set(eventStreamRules, this.#parts.streams)
      return await this.#withBoundSession(call, exchange, outcome)
    } catch (fault) {
      return outcomeOfFault(call, fault)
    }
  }

  encodeRefusal(exchange: McpExchange, outcome: Denied | Failed, traceId: string): WholeAnswer {
    return encodeRefusal(exchange, outcome, traceId)
  }

  #responseContext(call: Call, exchange: McpExchange, request: CallRequest): ResponseContext {
    const { method, message } = exchange
    const id = message?.type === 'request' ? message.id : undefined
    const isStanding = method === 'GET' || request.method === LISTEN_METHOD
    const { traceId } = call.trace
    return {
      method,
      id,
      isStanding,
      drainWhenAbandoned: !isStanding && !disconnectCancels(exchange),
      review: new ResponseFilter(call, request, exchange, this.#caches),
      isCancelled: () => exchange.isCancelled === true,
      encodeError: (outcome) => rpcError(id ?? null, outcome, traceId),
      lateResponses: () => new LateResponses(call, exchange, this.#late),
      resumptionOf: (requestId, begun) =>
        this.#late.openCalls.resumption(call, exchange, request, {
          session: resumableSession(exchange, begun),
          id: requestId,
        }),
    }
  }

  async #checkSession(call: Call, exchange: McpExchange): Promise<Denied | undefined> {
    const { headers, sessionTag } = exchange
    if (sessionTag === undefined) {
      if (headers['last-event-id'] === undefined || headers['mcp-session-id'] !== undefined) return undefined
      // Nothing binds an event id to its caller: it could name the stream of another.
      return denied('BAD_REQUEST', 'Last-Event-ID resumes a stream of a session; send its Mcp-Session-Id.')
    }
    const sessions = await this.#parts.sessions()
    if (sessions.isBound(call, String(headers['mcp-session-id']), sessionTag)) return undefined
    exchange.isForeignSession = true
    return denied('TARGET_NOT_FOUND', 'There is no such session of this caller; begin a new one.')
  }

  /** A message may name only tasks of its caller, and may use one only where it may use the task's tool. */
  async #checkTasks(call: Call, exchange: McpExchange, upstream: URL): Promise<Denied | undefined> {
    if (exchange.tasks.length === 0) return undefined
    const sessions = await this.#parts.sessions()
    for (const task of exchange.tasks) {
      if (!sessions.isBoundTask(call, task)) {
        return denied('TARGET_NOT_FOUND', 'There is no such task of this caller.')
      }
      const version = await this.#versions.of(upstream, exchange.credential)
      if (!call.mayRequest(referenceOf(exchange.server, 'tool', task.tool, version), 'tool')) {
        return denied('TOOL_NOT_ALLOWED', 'The tool of the task may not be used.', {
          denial: { level: 'gateway', type: 'mcp', reason: 'tool_not_in_allowlist' },
        })
      }
      await this.#tasks.add(call, task)
    }
    return undefined
  }

  async #withBoundSession(call: Call, exchange: McpExchange, outcome: Outcome): Promise<Outcome> {
    if (outcome.kind !== 'completed') return outcome
    const id = outcome.headers['mcp-session-id']
    if (typeof id !== 'string') return outcome
    const sessions = await this.#parts.sessions()
    const bound = sessions.bind(call, id)
    exchange.learned.sessionId = bound
    return { ...outcome, headers: { ...outcome.headers, 'mcp-session-id': bound } }
  }

  /** A `subscriptions/listen` may name only resources that the caller may use. */
  async #checkListen(
    call: Call,
    exchange: McpExchange,
    request: CallRequest,
    upstream: URL,
  ): Promise<Denied | undefined> {
    const { message } = exchange
    if (request.method !== LISTEN_METHOD || message === undefined || message.type === 'response')
      return undefined
    const uris = resourceSubscriptions(message.params)
    if (uris.length === 0) return undefined
    const version = await this.#versions.of(upstream, exchange.credential)
    const usable = uris.every((uri) =>
      call.mayUse(referenceOf(exchange.server, 'resource', uri, version), 'resource'),
    )
    if (usable) return undefined
    return denied('TOOL_NOT_ALLOWED', 'The subscription names a resource that may not be used.', {
      denial: { level: 'gateway', type: 'mcp', reason: 'tool_not_in_allowlist' },
    })
  }
}

/** The server's id of the session whose streams the client may resume; undefined where it may not. */
function resumableSession(exchange: McpExchange, begun: unknown): unknown {
  const { translation, isInBatch = false } = exchange
  if (isInBatch || translation?.mayResume === false || isStatelessExchange(exchange)) return undefined
  return exchange.headers['mcp-session-id'] ?? begun
}
