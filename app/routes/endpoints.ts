// The endpoints for calls: they read, send upstream and refuse the requests of each protocol.
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import {
  type Call,
  type CallProtocol,
  type CallRequest,
  type CallTarget,
  type Denied,
  type Failed,
  type MaybePromise,
  type Outcome,
  type Refusal,
  type RequestedResource,
  requestedResource,
  resolveOptional,
} from '@svc/core'
import { stringifyJson } from '@svc/core/json'
import type { CallControl } from '@svc/core/pipeline'
import type { ServerRequest } from '../federation/server-calls.js'
import type { ClientExchange } from '../http/client-exchange.js'
import { type BufferedResponse, refusalResponse } from '../http/response.js'
import {
  attachExchange,
  disconnectCancels,
  type ElicitationResponse,
  type McpExchange,
  noModes,
  openExchange,
  withoutEmptyHeaders,
} from '../mcp/exchange.js'
import type { MessageOutcome } from '../mcp/message-outcome.js'
import type { McpProxy } from '../mcp/proxy.js'
import type { RequestBody } from '../mcp/request.js'
import { UNVERSIONED } from '../mcp/server-versions.js'
import type { ActivePolicy } from '../policy/active-policy.js'
import type { UpstreamDispatcher } from '../upstream/dispatcher.js'
import { upstreamTarget } from '../upstream/send.js'

/** A request as a call: what its head says, and how to read, send and refuse it. */
export interface CallEndpoint {
  readonly protocol: CallProtocol
  readonly headers: IncomingHttpHeaders
  readonly target: CallTarget
  read(call: CallControl): MaybePromise<CallRequest>
  dispatch(call: CallControl): MaybePromise<Outcome>
  encode(outcome: Denied | Failed, call: Call): BufferedResponse
  /** Fills slots of the protocol. */
  prepare?(call: Call): void
  /** The part of the response that belongs to this request, if the response may be a part of another. */
  readonly response?: (outcome: Outcome, call: Call) => Promise<MessageOutcome>
  /** Whether the request opens a stream of notifications, as far as its head says so. */
  readonly isStream?: boolean
  /** Whether a caller that disconnects before the response begins wants the call to stop. */
  disconnectCancels?(): boolean
}

/** A message of MCP, whose response may be a part of another. */
export interface MessageEndpoint extends CallEndpoint {
  readonly response: NonNullable<CallEndpoint['response']>
}

/** A message whose call is repeated while its client waits. */
export interface RepeatableEndpoint extends MessageEndpoint {
  /** The body of the request, once it is read. */
  readonly sent: RequestBody | null
  /** The same request once more, with what the person at the client replied. */
  again(elicited: ElicitationResponse, policy: ActivePolicy): RepeatableEndpoint
}

export interface CallEndpointsOptions {
  readonly maxBodyBytes: number
  readonly mcp: McpProxy
  readonly upstream: UpstreamDispatcher
  /** The longest time that a call is held while a person decides, in milliseconds; 0: nobody is asked. */
  readonly maxHoldMs: number
  /** Whether endpoints between revisions offer only those with a handshake. */
  readonly isHandshakeOnly: boolean
}

/** A request to the MCP endpoint of one server. */
type EndpointRequest = Omit<ServerRequest, 'message'> & Pick<McpExchange, 'isHeaderless' | 'isHandshakeOnly'>

/** A message to one server: that of a client, or a part of a request to several. */
class ServerEndpoint implements RepeatableEndpoint {
  readonly protocol = 'mcp'
  readonly headers: IncomingHttpHeaders
  readonly target: CallTarget
  readonly isStream: boolean
  readonly #options: CallEndpointsOptions
  readonly #request: EndpointRequest
  readonly #exchange: McpExchange
  readonly #body: () => MaybePromise<RequestBody | null>
  /** Kept for a repetition, as a client sends its body once. */
  sent: RequestBody | null = null

  constructor(
    options: CallEndpointsOptions,
    request: EndpointRequest,
    policy: ActivePolicy,
    body: () => MaybePromise<RequestBody | null>,
  ) {
    const { server, method, headers, modes } = request
    this.headers = headers
    this.target = callTargetOf({ server, tool: method, version: UNVERSIONED })
    this.isStream = method === 'GET'
    this.#options = options
    this.#request = request
    this.#body = body
    this.#exchange = openExchange({
      ...request,
      modes: options.maxHoldMs === 0 ? noModes : modes,
      upstream: () => policy.target(server).url,
      credential: () => policy.ownCredential(server),
      service: (token) => resolveOptional(policy.container, token),
    })
  }

  async read(call: CallControl): Promise<CallRequest> {
    this.sent = await this.#body()
    return this.#options.mcp.read(call, this.#exchange, this.sent)
  }

  dispatch(call: CallControl): MaybePromise<Outcome> {
    this.#request.onJudged?.(call)
    call.set(upstreamTarget, { url: this.#exchange.upstream(), isMcp: true })
    return this.#options.mcp.dispatch(call)
  }

  readonly encode: CallEndpoint['encode'] = (outcome, call) =>
    this.#options.mcp.encodeRefusal(this.#exchange, outcome, call)

  readonly response: MessageEndpoint['response'] = (outcome, call) =>
    this.#options.mcp.readOutcome(this.#exchange, outcome, call)

  prepare(call: Call): void {
    const { used, onCall } = this.#request
    attachExchange(call, this.#exchange)
    if (used !== undefined) call.set(requestedResource, used)
    onCall?.(call)
  }

  disconnectCancels(): boolean {
    return disconnectCancels(this.#exchange)
  }

  again(elicited: ElicitationResponse, policy: ActivePolicy): RepeatableEndpoint {
    return new ServerEndpoint(this.#options, { ...this.#request, elicited }, policy, () => this.sent)
  }
}

export class CallEndpoints {
  #options: CallEndpointsOptions

  constructor(options: CallEndpointsOptions) {
    this.#options = options
  }

  /** A client's request to one server. */
  mcp(
    client: ClientExchange,
    { server, method }: Pick<ServerRequest, 'server' | 'method'>,
    policy: ActivePolicy,
  ): RepeatableEndpoint {
    const { maxBodyBytes, isHandshakeOnly } = this.#options
    const request = {
      server,
      method,
      headers: withoutEmptyHeaders(client.headers),
      isHeaderless: client.http === undefined,
      // A server over HTTP says itself which revisions it has.
      isHandshakeOnly: isHandshakeOnly && policy.isCommand(server),
    }
    const body = (): MaybePromise<RequestBody | null> =>
      method === 'POST' ? client.body(maxBodyBytes) : null
    return new ServerEndpoint(this.#options, request, policy, body)
  }

  /** A request to one server, which is part of a request to one or more. */
  server(request: ServerRequest, policy: ActivePolicy): MessageEndpoint {
    const { message: value, modes = noModes } = request
    const text = stringifyJson(value)
    const body = value === null ? null : { value, text, bytes: Buffer.byteLength(text) }
    return new ServerEndpoint(this.#options, { ...request, modes, isHeaderless: true }, policy, () => body)
  }

  /** The endpoint of a request to several servers that reaches none of them: it is recorded with its refusal. */
  refused(exchange: McpExchange, refusal: Refusal, used: RequestedResource): CallEndpoint {
    const { mcp } = this.#options
    const { message, method, headers } = exchange
    const mcpMethod = message === undefined || message.type === 'response' ? null : message.method
    return {
      ...refusedEndpoint(refusal),
      protocol: 'mcp',
      headers,
      target: { ...unknownTarget, tool: mcpMethod ?? method, mcpMethod },
      encode: (outcome, call) => mcp.encodeRefusal(exchange, outcome, call),
      prepare(call) {
        call.set(requestedResource, used)
        attachExchange(call, exchange)
      },
    }
  }
}

/** The endpoint of a malformed path: the call is recorded with its refusal. */
export function refusedPath({ headers }: IncomingMessage, refusal: Refusal): CallEndpoint {
  const endpoint = refusedEndpoint(refusal)
  return { ...endpoint, headers, protocol: 'invoke', target: unknownTarget, encode: refusalResponse }
}

function refusedEndpoint(refusal: Refusal): Pick<CallEndpoint, 'read' | 'dispatch'> {
  return { read: () => Promise.reject(refusal), dispatch: () => Promise.reject(refusal) }
}

export interface ToolName {
  readonly server: string
  readonly tool: string
  readonly version: string
}

/** Immutable, as calls share it. */
export function callTargetOf({ server, tool, version }: ToolName): CallTarget {
  return Object.freeze({ server, serverVersion: version, tool, toolVersion: version, mcpMethod: null })
}

export const unknownTarget = callTargetOf({ server: 'unknown', tool: 'unknown', version: UNVERSIONED })
