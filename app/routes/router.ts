// Decides once, by method and path alone, where a request goes: to health, metadata, an escalation's status, or a call.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { denied, isRefusal, type MaybePromise, Refusal } from '@svc/core'
import { ALL_SERVERS_PATH, metadataPath, resourceUrl } from '@svc/core/http'
import { parseNameSegment, parseToolSegment } from '@svc/core/match'
import { HeldCalls } from '../escalations/elicitation/held-calls.js'
import type { Federation, IncomingExchange } from '../federation/federation.js'
import type { ServerCalls } from '../federation/server-calls.js'
import { type ClientExchange, HttpClientExchange } from '../http/client-exchange.js'
import { PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER } from '../http/header-names.js'
import { idForm, requestPath } from '../http/request-errors.js'
import { type BufferedResponse, writeRefusal, writeWhole } from '../http/response.js'
import { isEraRefused } from '../mcp/message-outcome.js'
import { gatewayImplementation, isStateless } from '../mcp/protocol.js'
import { isSealedSession } from '../mcp/session-binding.js'
import type { ActivePolicy } from '../policy/active-policy.js'
import { CallHandler, type CallHandlerOptions } from './call-handler.js'
import {
  CallEndpoints,
  type CallEndpointsOptions,
  type RepeatableEndpoint,
  refusedPath,
} from './endpoints.js'
import { type NamedTool, namedTool, ToolEndpoint } from './invoke.js'
import { alive, readiness, resourceMetadata, respondToEscalationPoll } from './plain-requests.js'

interface RouterOptions extends CallHandlerOptions, CallEndpointsOptions {
  /** Silence of a stream after which its client gets a comment, in milliseconds. */
  readonly keepAliveMs: number
  /** Warnings for the operator about the server itself. */
  warnings(): string[]
}

/** The MCP endpoint of a server, of a group, or of all servers. */
export type McpRoute = Pick<Extract<Route, { kind: 'mcp' }>, 'name' | 'method'>

/** A route whose requests are not calls. */
type PlainRoute = Exclude<Route, { kind: 'invoke' | 'a2a' | 'mcp' | 'bad' | 'method' }>

export class Router {
  #options: RouterOptions
  #endpoints: CallEndpoints
  #calls: CallHandler
  #heldCalls: HeldCalls
  #federation: Promise<Federation> | undefined

  constructor(options: RouterOptions) {
    this.#options = options
    this.#endpoints = new CallEndpoints(options)
    this.#heldCalls = new HeldCalls({
      rounds: options.mcp.rounds,
      requests: options.mcp.requests,
      maxHoldMs: options.maxHoldMs,
      keepAliveMs: options.keepAliveMs,
      policies: options.policies,
    })
    this.#calls = new CallHandler(options)
  }

  /** Whether the policy in force lets a Host header name this gateway. */
  allowsHost(name: string): boolean {
    return this.#options.policies.current.hosts.has(name)
  }

  handle(message: IncomingMessage, response: ServerResponse): MaybePromise<void> {
    const { current: policy, isDraining } = this.#options.policies
    // An open connection would delay the drain.
    if (isDraining) response.setHeader('connection', 'close')
    const path = requestPath(message)
    if (message.headers.origin !== undefined) {
      // Any page may learn where tokens come from (RFC 9728); only a listed one may use them.
      const isPublic = metadataPath(path) !== undefined
      if (policy.origins.respondToBrowser(message, response, isPublic)) return
    }
    const route = routeOf(message.method ?? '', path)
    const exchange = new HttpClientExchange(message, response)
    switch (route.kind) {
      case 'invoke':
        return this.#calls.run(exchange, new ToolEndpoint(message, route.tool, policy, this.#options), policy)
      case 'a2a':
        return this.#calls.run(exchange, new ToolEndpoint(message, undefined, policy, this.#options), policy)
      case 'mcp':
        return this.mcp(exchange, route, policy)
      case 'bad':
        return this.#calls.run(exchange, refusedPath(message, route.refusal), policy)
      case 'method': {
        const headers = { allow: route.allow }
        const refusal = denied('METHOD_NOT_ALLOWED', `This path has ${route.allow}.`, { headers })
        return writeRefusal(response, refusal, this.#options.ids.traceId())
      }
      default:
        return this.#response(message, response, route, policy)
    }
  }

  /** Takes a client's message, the start of a stream or the end of a session. Rejects if the response broke off. */
  mcp(
    exchange: ClientExchange,
    { name, method }: McpRoute,
    policy = this.#options.policies.current,
  ): Promise<void> {
    const used = name === undefined ? policy.allServers : policy.group(name)
    if (used !== undefined) return this.#federate(exchange, { method, used, policy })
    const server = name ?? ''
    if (isSealedSession(exchange.headers[SESSION_ID_HEADER]) || this.#isOfOtherEra(exchange, server, policy))
      return this.#federate(exchange, { method, policy, ...onlyServer(server) })
    const endpoint = this.#endpoints.mcp(exchange, { server, method }, policy)
    return this.#handleHeld(exchange, endpoint, policy)
  }

  /** Handles a request to several servers, or to one of another era than the client. */
  #federate(exchange: ClientExchange, request: Omit<IncomingExchange, 'exchange' | 'calls'>): Promise<void> {
    const { policy } = request
    const calls: ServerCalls = {
      heldCalls: this.#heldCalls,
      mcp: this.#options.mcp,
      run: (request, response) => {
        // A call that waited for a person is repeated under the policy in force.
        const current = request.elicited === undefined ? policy : this.#options.policies.current
        const endpoint = this.#endpoints.server(request, current)
        return this.#calls.run(exchange, endpoint, current, response)
      },
      refuse: (refusal, refused, resource) => {
        const endpoint = this.#endpoints.refused(refused, refusal, resource)
        return this.#calls.run(exchange, endpoint, policy)
      },
    }
    return this.#loadFederation().then((federation) => federation.handle({ ...request, exchange, calls }))
  }

  /** Ends the waits for people; resolves when their calls have their responses, or after `withinMs`. */
  endHeld(withinMs: number): Promise<void> {
    return this.#heldCalls.close(withinMs)
  }

  /** Runs a call of one server, and holds it while the person at its client is asked. */
  async #handleHeld(
    exchange: ClientExchange,
    first: RepeatableEndpoint,
    policy: ActivePolicy,
  ): Promise<void> {
    const { mcp, policies } = this.#options
    let refused: (() => MaybePromise<void>) | undefined
    await this.#heldCalls.serve<RepeatableEndpoint>(
      exchange,
      (elicited, respond) => {
        const current = elicited === undefined ? policy : policies.current
        const endpoint = elicited === undefined ? first : first.again(elicited, current)
        return this.#calls.run(exchange, endpoint, current, respond)
      },
      (call, outcome, endpoint) => {
        const mayBeRefused = outcome.kind === 'completed' && outcome.error !== undefined
        if (!mayBeRefused || !isEraRefused(call, outcome))
          return this.#calls.write(call, outcome, endpoint, exchange)
        refused = () => this.#calls.write(call, outcome, endpoint, exchange)
      },
      (call) => mcp.askedClient(call, exchange),
    )
    if (refused === undefined || first.sent === null) return
    const request = { body: first.sent, write: refused }
    const only = onlyServer(first.target.server)
    await this.#federate(exchange, { method: 'POST', policy, ...only, refused: request })
  }

  /** Whether the server is a command that is known to refuse the client's revision, which the client's header names. */
  #isOfOtherEra({ headers }: ClientExchange, server: string, policy: ActivePolicy): boolean {
    const revision = headers[PROTOCOL_VERSION_HEADER]
    if (typeof revision !== 'string' || !isStateless(revision) || !policy.isCommand(server)) return false
    return this.#options.mcp.isHandshakeAlone(policy.target(server).url)
  }

  /** Loads it with the first request to several servers: loading takes time, and most gateways get none. */
  #loadFederation(): Promise<Federation> {
    this.#federation ??= import('../federation/federation.js').then((loaded) => {
      const { state, sessions } = this.#options.mcp.shared
      return new loaded.Federation({
        ...this.#options,
        serverInfo: gatewayImplementation,
        state,
        sessions,
        endServerSession: async (link) => {
          const policy = this.#options.policies.current
          const { url } = policy.target(link.server)
          await this.#options.mcp.endSession(url, await policy.ownCredential(link.server), link)
        },
      })
    })
    return this.#federation
  }

  async #response(
    message: IncomingMessage,
    response: ServerResponse,
    route: PlainRoute,
    policy: ActivePolicy,
  ): Promise<void> {
    try {
      writeWhole(response, await this.#respondTo(message, route, policy))
    } catch (error) {
      if (!isRefusal(error)) throw error
      writeRefusal(response, denied(error.code, error.message), this.#options.ids.traceId())
    }
  }

  /** Rejects with `Refusal`. */
  async #respondTo(
    message: IncomingMessage,
    route: PlainRoute,
    policy: ActivePolicy,
  ): Promise<BufferedResponse> {
    switch (route.kind) {
      case 'health':
        return alive
      case 'ready':
        return readiness(policy.pipeline, this.#options.policies.isDraining, this.#options.warnings())
      case 'metadata':
        return resourceMetadata(message, route.path, policy)
      case 'escalation':
        return respondToEscalationPoll(message.headers, route.id, policy, {
          ids: this.#options.ids,
          logger: this.#options.limitedLogger,
        })
      case 'none':
        throw unknownPath(policy.knownServers)
    }
  }
}

/** The endpoint of one server as that of a group. */
function onlyServer(server: string): Pick<IncomingExchange, 'used' | 'only'> {
  return { used: { path: resourceUrl('', server), servers: [server] }, only: server }
}

type McpMethod = 'POST' | 'GET' | 'DELETE'

type Route =
  | { readonly kind: 'invoke'; readonly tool: NamedTool }
  /** `name` is that of a server or group; undefined for /mcp itself. */
  | { readonly kind: 'mcp'; readonly name: string | undefined; readonly method: McpMethod }
  | { readonly kind: 'a2a' }
  | { readonly kind: 'health' }
  | { readonly kind: 'ready' }
  /** Metadata of the resource at `path`. */
  | { readonly kind: 'metadata'; readonly path: string }
  | { readonly kind: 'escalation'; readonly id: string }
  /** The path has other methods. */
  | { readonly kind: 'method'; readonly allow: string }
  /** A malformed path below /mcp/: refused as a call, so that it is recorded. */
  | { readonly kind: 'bad'; readonly refusal: Refusal }
  | { readonly kind: 'none' }

const paths = [
  ...[ALL_SERVERS_PATH, `${ALL_SERVERS_PATH}/<server>`, `${ALL_SERVERS_PATH}/<server>/<tool>@<version>`],
  ...['/a2a/invoke', '/escalations/<id>', '/healthz', '/readyz'],
].join(', ')

/** `servers` is what the caller may know of them. */
function unknownPath(servers: string | undefined): Refusal {
  const known = servers === undefined ? '' : ` ${servers}`
  return new Refusal('TARGET_NOT_FOUND', `No such path; there are ${paths}.${known}`)
}

const onlyPost: Route = { kind: 'method', allow: 'POST' }

/** The routes of recent calls by their paths, as most calls are of few tools. Callers choose the paths. */
const recentCalls = new Map<string, Route>()
const MAX_RECENT = 1000
const MAX_RECENT_PATH = 256

function routeOf(method: string, url: string): Route {
  const query = url.indexOf('?')
  const path = query === -1 ? url : url.slice(0, query)
  const recent = method === 'POST' ? recentCalls.get(path) : undefined
  if (recent !== undefined) return recent
  if (path === ALL_SERVERS_PATH || path.startsWith(`${ALL_SERVERS_PATH}/`)) {
    const route = mcpRoute(method, path.slice(ALL_SERVERS_PATH.length + 1))
    if (route.kind === 'invoke' && path.length <= MAX_RECENT_PATH) {
      if (recentCalls.size >= MAX_RECENT) recentCalls.clear()
      recentCalls.set(path, route)
    }
    return route
  }
  if (path === '/a2a/invoke') return method === 'POST' ? { kind: 'a2a' } : onlyPost
  if (method === 'GET' || method === 'HEAD') {
    if (path === '/healthz') return { kind: 'health' }
    if (path === '/readyz') return { kind: 'ready' }
    const described = metadataPath(path)
    if (described !== undefined) return { kind: 'metadata', path: described }
    const id = path.startsWith('/escalations/') ? path.slice(13) : ''
    if (idForm.test(id)) return { kind: 'escalation', id }
  }
  return { kind: 'none' }
}

function mcpRoute(method: string, rest: string): Route {
  const slash = rest.indexOf('/')
  try {
    if (slash === -1 || slash === rest.length - 1) {
      if (method !== 'POST' && method !== 'GET' && method !== 'DELETE') {
        return { kind: 'method', allow: 'GET, POST, DELETE' }
      }
      const segment = slash === -1 ? rest : rest.slice(0, slash)
      return { kind: 'mcp', name: segment === '' ? undefined : parseNameSegment(segment), method }
    }
    if (method !== 'POST') return onlyPost
    const { tool, version } = parseToolSegment(rest.slice(slash + 1))
    const server = parseNameSegment(rest.slice(0, slash))
    return { kind: 'invoke', tool: namedTool({ server, tool, version }) }
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : 'malformed path'
    return { kind: 'bad', refusal: new Refusal('BAD_REQUEST', `Bad path: ${message}`, { cause }) }
  }
}
