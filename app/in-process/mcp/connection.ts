// One connection of a governed MCP server: each message of the client becomes a call of the pipeline, and the server's
// response becomes the response of the call.
import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import {
  abortable,
  attempt,
  type Call,
  type CallRequest,
  type Clock,
  type Ids,
  type Logger,
  type MaybePromise,
} from '@svc/core'
import { isJsonObject, type JsonObject, messageOf, stringifyJson } from '@svc/core/json'
import { CallControl } from '@svc/core/pipeline'
import type { Attempt } from '../../escalations/elicitation/held-calls.js'
import { agentOf, traceOf } from '../../http/call-headers.js'
import type { ClientExchange } from '../../http/client-exchange.js'
import {
  attachExchange,
  declaredModes,
  type ElicitationModes,
  type ElicitationResponse,
  type McpExchange,
  noModes,
  openExchange,
} from '../../mcp/exchange.js'
import { rpcErrorResponse } from '../../mcp/message-outcome.js'
import { withTrace } from '../../mcp/meta.js'
import type { RequestId } from '../../mcp/protocol.js'
import { UNVERSIONED } from '../../mcp/server-versions.js'
import { shownEvent } from '../../mcp/servers.js'
import { LineExchange } from '../../stdio/gateway/endpoint-session.js'
import type { CallContext } from '../governed.js'
import type { InProcessPipeline } from '../pipeline.js'
import { trustCaller } from '../tool-call.js'
import { completedForRecord, requestForRecord, type ServerPipeline } from './server-pipeline.js'
import type { Interceptor, MessageExtra, RpcMessage, Transport } from './transport.js'

export interface ConnectionOptions extends ServerPipeline {
  readonly pipeline: InProcessPipeline
  /** The server's name in references and records. */
  readonly server: string
  /** The upstream that `deliveries` replace. */
  readonly upstream: URL
  readonly ids: Ids
  readonly clock: Clock
  readonly logger: Logger
  /** The version in the server's `serverInfo`. */
  readonly version: string
  /** Whether messages are only recorded, and none is refused. */
  readonly recordsOnly: boolean
  /** The caller of a message. */
  contextOf(extra: MessageExtra | undefined): CallContext
  onClosed(): void
}

export class GovernedConnection implements Interceptor {
  #options: ConnectionOptions
  readonly #id = randomUUID()
  #send: Transport['send']
  /** Calls whose response the server owes, by the id of their request. */
  #waiting = new Map<unknown, { readonly call: Call; response(message: RpcMessage): void }>()
  /** Calls that have not settled. */
  #calls = new Set<Call>()
  /** The modes of elicitation that the client declared in its handshake. */
  #modes: ElicitationModes | undefined
  #closed = new AbortController()

  constructor(options: ConnectionOptions, send: Transport['send']) {
    this.#options = options
    this.#send = send
    if (!options.asksClients) this.#modes = noModes
    setMaxListeners(0, this.#closed.signal)
  }

  received(
    message: RpcMessage,
    extra: MessageExtra | undefined,
    deliver: (message: RpcMessage, extra?: MessageExtra) => void,
  ): void {
    if (message['method'] === 'initialize') this.#modes ??= modesIn(message)
    this.#run(message, extra, (judged) => deliver(judged, extra)).catch((err: unknown) =>
      this.#options.logger.error({ err }, 'a message could not be handled'),
    )
  }

  /** A response belongs to its call, which sends it once it is judged and recorded. */
  sending(message: RpcMessage): boolean {
    if ('method' in message || !('id' in message)) return false
    const waiting = this.#waiting.get(message['id'])
    if (waiting === undefined) return false
    this.#waiting.delete(message['id'])
    waiting.response(message)
    return true
  }

  closed(): void {
    this.#closed.abort()
    this.#options.onClosed()
    for (const call of this.#calls) call.abort('CANCELLED', 'The connection closed before the response.')
    this.#waiting.clear()
  }

  async #run(
    message: RpcMessage,
    extra: MessageExtra | undefined,
    deliver: (message: RpcMessage) => void,
  ): Promise<void> {
    const { proxy, heldCalls, recordsOnly } = this.#options
    if (recordsOnly) return this.#record(this.#callOf(message, extra).call, message, deliver)
    await heldCalls.run(
      (elicited) => this.#attempt(message, extra, deliver, elicited),
      (call) => proxy.askedClient(call, this.#clientOf(message)),
    )
  }

  /** Resolves to the call if it waits for the person at the client, and has no response yet. */
  async #attempt(
    message: RpcMessage,
    extra: MessageExtra | undefined,
    deliver: (message: RpcMessage) => void,
    elicited: ElicitationResponse | undefined,
  ): Promise<Attempt | undefined> {
    const { pipeline, proxy, deliveries, heldCalls } = this.#options
    const { call, exchange } = this.#callOf(message, extra, elicited)
    deliveries.expect(call.abortState, (judged) => this.#exchange(call, judged, deliver))
    const outcome = await pipeline.run(call, (running) => proxy.dispatch(running))
    // A client does not wait for the response to a request that it has cancelled (2025-11-25, "Cancellation").
    if (!isRequest(message) || (outcome.kind !== 'completed' && outcome.code === 'CANCELLED'))
      return undefined
    const { id } = message
    const respond = (response: object): Promise<void> =>
      this.#send({ ...response, jsonrpc: '2.0', id }, { relatedRequestId: id })
    const write = async (): Promise<void> => {
      const { response } = await proxy.readOutcome(exchange, outcome, call)
      // A refused message may have an id that the protocol does not know.
      if (response !== undefined) await respond(response.message)
    }
    const writeResult = (result: object): Promise<void> => respond({ result })
    if (heldCalls.asks(call, outcome)) return { call, outcome, write, writeResult }
    await write()
    return undefined
  }

  /** The client of a request, which gets the gateway's own messages on the stream of the request. */
  #clientOf({ id }: RpcMessage): ClientExchange {
    return new LineExchange({
      method: 'POST',
      headers: {},
      signal: this.#closed.signal,
      onEvent: (bytes) => {
        const { message } = shownEvent(bytes)
        return message === undefined ? undefined : this.#send(message, { relatedRequestId: id })
      },
    })
  }

  /** Hands the message to the server unchanged, but for the trace, and the response to the client unchanged. */
  async #record(
    call: CallControl,
    message: RpcMessage,
    deliver: (message: RpcMessage) => void,
  ): Promise<void> {
    let response: RpcMessage | undefined
    const outcome = await this.#options.pipeline.run(call, async () => {
      const refused = await call.commitHolds()
      if (refused !== undefined) return refused
      call.markSent('yes')
      const traced = withTrace(call, message as JsonObject, true)
      const exchanged = abortable(call.abortState, this.#exchange(call, traced, deliver))
      response = await exchanged
      return completedForRecord(response)
    })
    const { id } = message
    if (outcome.kind === 'completed') {
      if (response !== undefined) await this.#send(response, { relatedRequestId: id })
    } else if (isRequest(message) && outcome.code !== 'CANCELLED') {
      await this.#send(rpcErrorResponse(message.id, outcome, call), { relatedRequestId: id })
    }
  }

  #callOf(
    message: RpcMessage,
    extra: MessageExtra | undefined,
    elicited?: ElicitationResponse,
  ): { call: CallControl; exchange: McpExchange } {
    const { proxy, server, version, recordsOnly, upstream, ids, clock } = this.#options
    const { headers, identity, error } = this.#contextOf(extra)
    const exchange = openExchange({
      method: 'POST',
      headers,
      server,
      upstream: () => upstream,
      isHeaderless: true,
      connection: this.#id,
      modes: this.#modes,
      elicited,
    })
    const { agent, refusal } = agentOf(headers)
    const call = new CallControl({
      protocol: 'mcp',
      headers,
      agent,
      trace: traceOf(headers, ids),
      target: {
        server,
        serverVersion: UNVERSIONED,
        tool: 'POST',
        toolVersion: UNVERSIONED,
        mcpMethod: null,
      },
      receivedAt: clock.now(),
      read: (reading) => {
        if (error !== undefined) throw error
        const read = (): MaybePromise<CallRequest> => {
          if (refusal !== undefined) throw refusal
          return proxy.read(reading, exchange, Buffer.from(stringifyJson(message)))
        }
        return recordsOnly
          ? attempt(read, () => requestForRecord(reading, message, { server, version }))
          : read()
      },
    })
    attachExchange(call, exchange)
    this.#calls.add(call)
    call.afterSettle(() => void this.#calls.delete(call))
    if (identity !== undefined) trustCaller(call, identity)
    return { call, exchange }
  }

  /** An error of `contextOf` refuses the call, as its caller is not known. */
  #contextOf(extra: MessageExtra | undefined): {
    readonly headers: Record<string, string>
    readonly identity?: CallContext['identity']
    readonly error?: Error
  } {
    try {
      const context = this.#options.contextOf(extra)
      const { identity } = context
      const headers = headersOf(extra, context)
      // These headers say who calls and under which rules, which a record alone does not need.
      if (this.#options.recordsOnly) for (const name of judgedHeaders) delete headers[name]
      return identity === undefined ? { headers } : { headers, identity }
    } catch (cause) {
      const error = new Error(`contextOf failed: ${messageOf(cause)}`, { cause })
      this.#options.logger.error({ err: error }, 'the caller of a message is not known')
      return { headers: {}, error }
    }
  }

  /** Hands what was judged to the server; resolves with its response, undefined for a message without one. */
  async #exchange(
    call: Call,
    message: RpcMessage,
    deliver: (message: RpcMessage) => void,
  ): Promise<RpcMessage | undefined> {
    const id = 'method' in message ? message['id'] : undefined
    if (id === undefined) {
      this.#cancel(message)
      deliver(message)
      return undefined
    }
    if (this.#waiting.has(id) && this.#options.recordsOnly) {
      deliver(message)
      return undefined
    }
    if (this.#waiting.has(id)) {
      return { jsonrpc: '2.0', id, error: { code: -32600, message: 'A request with this id is running.' } }
    }
    const response = new Promise<RpcMessage>((response) => this.#waiting.set(id, { call, response }))
    deliver(message)
    return response
  }

  /** The SDK sends no response to a cancelled request. */
  #cancel({ method, params }: RpcMessage): void {
    if (method !== 'notifications/cancelled' || typeof params !== 'object' || params === null) return
    const id: unknown = Reflect.get(params, 'requestId')
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    waiting?.call.abort('CANCELLED', 'The caller cancelled the request.')
  }
}

function modesIn({ params }: RpcMessage): ElicitationModes {
  if (!isJsonObject(params)) return noModes
  return declaredModes(params['capabilities'], String(params['protocolVersion']))
}

const judgedHeaders = ['authorization', 'x-tenant', 'idempotency-key', 'x-idempotency-key']

/** The HTTP headers, if there are any, without those of the transport. */
function headersOf(
  extra: MessageExtra | undefined,
  { headers = {}, idempotencyKey, escalationId, waitSec }: CallContext,
): Record<string, string> {
  const found: Record<string, string> = {}
  const add = (name: string, value: unknown): void => {
    if (typeof value === 'string') found[name.toLowerCase()] = value
  }
  const given = extra?.requestInfo?.headers ?? Object.fromEntries(extra?.request?.headers ?? [])
  for (const [name, value] of [...Object.entries(given), ...Object.entries(headers)]) add(name, value)
  for (const name of Object.keys(found)) if (name.startsWith('mcp-')) delete found[name]
  add('idempotency-key', idempotencyKey)
  add('x-escalation-id', escalationId)
  add('x-escalation-wait', waitSec === undefined ? undefined : String(waitSec))
  return { ...found, 'content-type': 'application/json' }
}

function isRequest(message: RpcMessage): message is RpcMessage & { readonly id: RequestId } {
  const { method, id } = message
  return method !== undefined && (typeof id === 'string' || typeof id === 'number')
}
