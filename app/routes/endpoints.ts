// The endpoints for calls: for each protocol how a request is read, sent upstream and refused.
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import {
  type Call,
  type CallProtocol,
  type CallRequest,
  type CallTarget,
  callRequest,
  type Denied,
  type Failed,
  type Outcome,
  type Refusal,
} from '@svc/core'
import { refusalAnswer, type WholeAnswer } from '../http/answer.js'
import { readBody } from '../http/body.js'
import { answerOf, type MessageAnswer, messagesIn } from '../mcp/batch.js'
import { attachExchange, disconnectCancels, type McpExchange, openExchange } from '../mcp/exchange.js'
import type { McpProxy } from '../mcp/proxy.js'
import { keepProtocolError } from '../mcp/request.js'
import { UNVERSIONED } from '../mcp/server-versions.js'
import { splitSessionId } from '../mcp/session-binding.js'
import { reportVersionMismatch } from '../mcp/tool-client.js'
import type { ActivePolicy } from '../policy/active-policy.js'
import type { UpstreamDispatcher } from '../upstream/dispatcher.js'
import { dispatchInvoke } from '../upstream/invoke.js'
import { type Invocation, readA2a, readInvoke, type ToolName } from './invoke.js'
import type { Route } from './route.js'

/** A request as a call: the facts in its head, and how to read, send and refuse it. */
export interface Endpoint {
  readonly protocol: CallProtocol
  readonly headers: IncomingHttpHeaders
  readonly target: CallTarget
  read(call: Call): Promise<CallRequest>
  dispatch(call: Call): Promise<Outcome>
  encode(outcome: Denied | Failed, call: Call): WholeAnswer
  /** Fills slots of the protocol's own. */
  prepare?(call: Call): void
  /** Where the body is a batch, its other messages, each a call of its own; known once the request was read. */
  batch?(): Batch | undefined
  /** Whether the request opens a stream of notifications, as far as its head says so. */
  isStream?(): boolean
  /** Whether a caller that disconnects before the answer begins wants the call to stop. */
  disconnectCancels?(): boolean
}

/** One message of a batch. */
export interface MessageEndpoint extends Endpoint {
  /** Its part of the answer. */
  answer(outcome: Outcome, call: Call): Promise<MessageAnswer>
}

export interface Batch {
  readonly first: MessageEndpoint
  readonly others: readonly MessageEndpoint[]
}

export interface EndpointParts {
  readonly maxBodyBytes: number
  readonly mcp: McpProxy
  readonly upstream: UpstreamDispatcher
}

export class Endpoints {
  #parts: EndpointParts

  constructor(parts: EndpointParts) {
    this.#parts = parts
  }

  invoke(
    message: IncomingMessage,
    route: Extract<Route, { kind: 'invoke' }>,
    policy: ActivePolicy,
  ): Endpoint {
    return {
      ...this.#toolEndpoint(message, policy),
      protocol: 'invoke',
      target: targetOf(route),
      read: async (call) => {
        policy.target(route.server)
        const invocation = await readInvoke(message, this.#parts.maxBodyBytes, route)
        return this.#toolRequest(call, invocation, policy)
      },
    }
  }

  a2a(message: IncomingMessage, policy: ActivePolicy): Endpoint {
    return {
      ...this.#toolEndpoint(message, policy),
      protocol: 'a2a',
      target: unknownTarget,
      read: async (call) => {
        const invocation = await readA2a(message, this.#parts.maxBodyBytes)
        call.refineTarget(targetOf(invocation))
        return this.#toolRequest(call, invocation, policy)
      },
    }
  }

  mcp(message: IncomingMessage, route: Extract<Route, { kind: 'mcp' }>, policy: ActivePolicy): Endpoint {
    const { maxBodyBytes } = this.#parts
    let others: readonly MessageEndpoint[] | undefined
    const body = async (exchange: McpExchange): Promise<Uint8Array | null> => {
      if (route.method !== 'POST') return null
      const bytes = await readBody(message, maxBodyBytes)
      const messages = batchIn(exchange, bytes)
      if (messages === undefined) return bytes
      const [first, ...rest] = messages
      exchange.isInBatch = true
      others = rest.map((one) =>
        this.#messageEndpoint(message, route, policy, async (other) => {
          other.isInBatch = true
          return one
        }),
      )
      return first
    }
    const first = this.#messageEndpoint(message, route, policy, body)
    return { ...first, batch: () => (others === undefined ? undefined : { first, others }) }
  }

  #messageEndpoint(
    { headers }: IncomingMessage,
    { server, method }: Extract<Route, { kind: 'mcp' }>,
    policy: ActivePolicy,
    body: (exchange: McpExchange) => Promise<Uint8Array | null>,
  ): MessageEndpoint {
    const { mcp } = this.#parts
    const exchange = openExchange({
      ...splitSessionId(headers),
      method,
      server,
      upstream: () => policy.target(server).url,
      credential: () => policy.pipeline.ownCredential(server),
      offer: (service) => policy.pipeline.offer(service),
    })
    return {
      protocol: 'mcp',
      headers: exchange.headers,
      target: targetOf({ server, tool: method, version: UNVERSIONED }),
      read: async (call) => mcp.read(call, exchange, await body(exchange)),
      dispatch: (call) => mcp.dispatch(call),
      encode: (outcome, call) => mcp.encodeRefusal(exchange, outcome, call.trace.traceId),
      answer: (outcome, call) => answerOf(exchange, outcome, call.trace.traceId),
      prepare: (call) => attachExchange(call, exchange),
      isStream: () => method === 'GET',
      disconnectCancels: () => disconnectCancels(exchange),
    }
  }

  /** For a malformed path: the call is recorded with its refusal. */
  refused(message: IncomingMessage, refusal: Refusal, policy: ActivePolicy): Endpoint {
    return {
      ...this.#toolEndpoint(message, policy),
      protocol: 'invoke',
      target: unknownTarget,
      read: () => Promise.reject(refusal),
    }
  }

  #toolEndpoint(
    { headers }: IncomingMessage,
    policy: ActivePolicy,
  ): Pick<Endpoint, 'headers' | 'dispatch' | 'encode'> {
    return {
      headers,
      dispatch: async (call) => {
        const { mcp, upstream } = this.#parts
        const { server } = await call.request()
        const { url, isMcp } = policy.target(server)
        return isMcp ? mcp.dispatchTool(call, url) : dispatchInvoke(call, url, upstream)
      },
      encode: (outcome, call) => refusalAnswer(outcome, call.trace.traceId),
    }
  }

  /** An MCP server's tools have the version that the server gives itself. */
  async #toolRequest(call: Call, invocation: Invocation, policy: ActivePolicy): Promise<CallRequest> {
    const { server, tool, ...rest } = invocation
    const request = { ...rest, kind: 'tool', method: null, server, name: tool } as const
    const { url, isMcp } = policy.target(server)
    if (!isMcp) return callRequest(request)
    const version = await this.#parts.mcp.versionOf(url, () => policy.pipeline.ownCredential(server))
    call.refineTarget({ serverVersion: version, toolVersion: version })
    reportVersionMismatch(call, invocation, version)
    const known = callRequest({ ...request, version })
    await this.#parts.mcp.refreshAnnotations(url, known)
    return known
  }
}

/** The messages of a batch, undefined for another body. Throws `McpRefusal`. */
function batchIn(exchange: McpExchange, bytes: Uint8Array): ReturnType<typeof messagesIn> {
  try {
    return messagesIn(bytes, exchange.headers)
  } catch (fault) {
    keepProtocolError(exchange, fault)
    throw fault
  }
}

function targetOf({ server, tool, version }: ToolName): CallTarget {
  return { server, serverVersion: version, tool, toolVersion: version, mcpMethod: null }
}

const unknownTarget = targetOf({ server: 'unknown', tool: 'unknown', version: UNVERSIONED })
