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
import type { CallControl } from '@svc/core/pipeline'
import { writeAttempt } from '../escalations/elicitation/held-calls.js'
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
import { splitSessionId } from '../mcp/session-binding.js'
import type { ActivePolicy } from '../policy/active-policy.js'
import type { UpstreamDispatcher } from '../upstream/dispatcher.js'
import { upstreamTarget } from '../upstream/send.js'
import { callTargetOf, unknownTarget } from './invoke.js'

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
  /** Writes the outcome into a response that has begun, else undefined. */
  write?(client: ClientExchange, call: CallControl, outcome: Outcome): Promise<void> | undefined
  /** Whether the request opens a stream of notifications, as far as its head says so. */
  isStream?(): boolean
  /** Whether a caller that disconnects before the response begins wants the call to stop. */
  disconnectCancels?(): boolean
}

/** A message of MCP, whose response may be a part of another. */
export interface MessageEndpoint extends CallEndpoint {
  /** The part of the response that belongs to this message. */
  response(outcome: Outcome, call: Call): Promise<MessageOutcome>
}

/** A message whose call is repeated while its client waits. */
export interface RepeatableEndpoint extends MessageEndpoint {
  /** The same request once more, with what the person at the client replied. */
  again(elicited: ElicitationResponse, policy: ActivePolicy): RepeatableEndpoint
}

export interface CallEndpointsParts {
  readonly maxBodyBytes: number
  readonly mcp: McpProxy
  readonly upstream: UpstreamDispatcher
  /** The longest time that a call is held while a person decides, in milliseconds; 0: nobody is asked. */
  readonly maxHoldMs: number
  /** Whether endpoints between revisions offer only those with a handshake. */
  readonly isHandshakeOnly: boolean
}

/** An MCP endpoint of one server, and the method of a request to it. */
type ServerEndpoint = Pick<ServerRequest, 'server' | 'method'>

export class CallEndpoints {
  #parts: CallEndpointsParts

  constructor(parts: CallEndpointsParts) {
    this.#parts = parts
  }

  mcp(client: ClientExchange, route: ServerEndpoint, policy: ActivePolicy): RepeatableEndpoint {
    const { maxBodyBytes, isHandshakeOnly } = this.#parts
    // Without a spread: properties after one would give each request a hidden class of its own.
    const request = {
      server: route.server,
      method: route.method,
      headers: withoutEmptyHeaders(client.headers),
      isHeaderless: client.http === undefined,
      // A server over HTTP says itself which revisions it has.
      isHandshakeOnly: isHandshakeOnly && policy.isCommand(route.server),
    }
    let sent: RequestBody | undefined
    const first = this.#messageEndpoint(request, policy, async () => {
      if (route.method !== 'POST') return null
      sent = await client.body(maxBodyBytes)
      return sent
    })
    const again = (elicited: ElicitationResponse, current: ActivePolicy): RepeatableEndpoint => {
      const endpoint = this.#messageEndpoint({ ...request, elicited }, current, async () => sent ?? null)
      return {
        ...endpoint,
        again,
        write: (to, call, outcome) => (to.isBegun ? writeAttempt(to, call, outcome, endpoint) : undefined),
      }
    }
    return { ...first, again }
  }

  /** A request to one server, which is part of a request to one or more. */
  server(request: ServerRequest, policy: ActivePolicy): MessageEndpoint {
    const { message: value, onCall, onJudged } = request
    const text = JSON.stringify(value)
    const body = value === null ? null : { value, text, bytes: Buffer.byteLength(text) }
    const { modes = noModes } = request
    const endpoint = this.#messageEndpoint(
      { ...request, modes, isHeaderless: true },
      policy,
      async () => body,
    )
    return {
      ...endpoint,
      dispatch(call) {
        onJudged?.(call)
        return endpoint.dispatch(call)
      },
      prepare(call) {
        endpoint.prepare?.(call)
        onCall?.(call)
      },
    }
  }

  /** The endpoint of a request to several servers that reaches none of them: it is recorded with its refusal. */
  refusedExchange(exchange: McpExchange, refusal: Refusal, used: RequestedResource): CallEndpoint {
    const { mcp } = this.#parts
    const { message, method, headers } = exchange
    const mcpMethod = message === undefined || message.type === 'response' ? null : message.method
    return {
      protocol: 'mcp',
      headers,
      target: { ...unknownTarget, tool: mcpMethod ?? method, mcpMethod },
      read: () => Promise.reject(refusal),
      dispatch: () => Promise.reject(refusal),
      encode: (outcome, call) => mcp.encodeRefusal(exchange, outcome, call),
      prepare(call) {
        call.set(requestedResource, used)
        attachExchange(call, exchange)
      },
    }
  }

  #messageEndpoint(
    {
      server,
      method,
      headers,
      translation,
      isHeaderless,
      isHandshakeOnly,
      inputFor,
      modes,
      elicited,
    }: ServerEndpoint &
      Pick<ServerRequest, 'headers' | 'translation' | 'inputFor' | 'modes' | 'elicited'> &
      Pick<McpExchange, 'isHeaderless' | 'isHandshakeOnly'>,
    policy: ActivePolicy,
    body: () => Promise<RequestBody | null>,
  ): MessageEndpoint {
    const { mcp, maxHoldMs } = this.#parts
    const split = splitSessionId(headers)
    const exchange = openExchange({
      headers: split.headers,
      sessionTag: split.sessionTag,
      method,
      server,
      translation,
      isHeaderless,
      isHandshakeOnly,
      inputFor,
      modes: maxHoldMs === 0 ? noModes : modes,
      elicited,
      upstream: () => policy.target(server).url,
      credential: () => policy.ownCredential(server),
      service: (token) => resolveOptional(policy.container, token),
    })
    return {
      protocol: 'mcp',
      headers: exchange.headers,
      target: callTargetOf({ server, tool: method, version: UNVERSIONED }),
      read: (call) => body().then((found) => mcp.read(call, exchange, found)),
      dispatch: (call) => {
        call.set(upstreamTarget, { url: exchange.upstream(), isMcp: true })
        return mcp.dispatch(call)
      },
      encode: (outcome, call) => mcp.encodeRefusal(exchange, outcome, call),
      response: (outcome, call) => mcp.readOutcome(exchange, outcome, call),
      prepare: (call) => attachExchange(call, exchange),
      isStream: () => method === 'GET',
      disconnectCancels: () => disconnectCancels(exchange),
    }
  }

  /** The endpoint of a malformed path: the call is recorded with its refusal. */
  refused(message: IncomingMessage, refusal: Refusal): CallEndpoint {
    return {
      headers: message.headers,
      protocol: 'invoke',
      target: unknownTarget,
      dispatch: () => Promise.reject(refusal),
      encode: refusalResponse,
      read: () => Promise.reject(refusal),
    }
  }
}
