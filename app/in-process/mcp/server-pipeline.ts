// What the governed servers of one pipeline have in common. The SDK makes a server for each session or request, so counts, logs
// and the state of calls that wait belong to the pipeline, and not to a server.
import { randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import {
  type Abortable,
  abortable,
  type CallRequest,
  type Completed,
  callRequest,
  resolve,
  tokens,
} from '@svc/core'
import { canonicalize, isJsonObject, type JsonValue, sha256Hex, stringifyJson } from '@svc/core/json'
import { ReferenceInputError } from '@svc/core/match'
import { type CallControl, refineTarget } from '@svc/core/pipeline'
import { HeldCalls } from '../../escalations/elicitation/held-calls.js'
import type { GatewaySettings } from '../../gateway/options.js'
import { createMcpProxy } from '../../gateway/upstreams.js'
import { JSON_TYPE } from '../../http/media-type.js'
import type { Implementation } from '../../mcp/protocol.js'
import type { McpProxy } from '../../mcp/proxy.js'
import {
  type McpRequest,
  type McpResponse,
  type McpServers,
  noMessage,
  WholeResponse,
} from '../../mcp/servers.js'
import { SessionBinding } from '../../mcp/session-binding.js'
import { InProcessPipeline } from '../pipeline.js'
import type { RpcMessage } from './transport.js'

export interface ServerPipeline {
  readonly proxy: McpProxy
  /** Calls that wait for the person at the client. */
  readonly heldCalls: HeldCalls
  /** Whether clients are asked at all. */
  readonly asksClients: boolean
  readonly deliveries: Deliveries
}

const ofPipelines = new WeakMap<InProcessPipeline, ServerPipeline>()

/** `recordsOnly`: the servers of the pipeline are only recorded, and ask nothing of their clients. */
export function serverPipeline(pipeline: InProcessPipeline, recordsOnly: boolean): ServerPipeline {
  const known = ofPipelines.get(pipeline)
  if (known !== undefined) return known
  const { state, annotations, builder } = pipeline
  const { server } = builder.host
  const deliveries = new Deliveries()
  const clock = resolve(builder.bindings, tokens.Clock)
  const sessions = new SessionBinding(randomBytes(32).toString('base64'), clock)
  const memory = { state, annotations, sessions: () => sessions }
  const proxy = createMcpProxy(builder.bindings, server, deliveries, memory)
  const maxHoldMs = recordsOnly ? 0 : server.mcp.elicit_ms
  const heldCalls = new HeldCalls({
    rounds: proxy.rounds,
    requests: proxy.requests,
    maxHoldMs,
    keepAliveMs: server.mcp.keep_alive_ms,
    policies: {
      get current() {
        return pipeline.current
      },
      get isDraining() {
        return pipeline.isClosing
      },
    },
  })
  pipeline.onClose = () => heldCalls.close(server.drainMs)
  const parts = { proxy, heldCalls, asksClients: maxHoldMs > 0, deliveries }
  ofPipelines.set(pipeline, parts)
  return parts
}

/** The pipelines of equal configurations, as a program may write its configuration once for each server. */
const configured = new Set<ConfiguredPipeline>()

/** A pipeline that the servers of one configuration share. */
export class ConfiguredPipeline {
  readonly pipeline: InProcessPipeline
  #config: GatewaySettings
  /** The server of each open connection. */
  #connections = new Map<object, object>()
  /** Whether the program has closed one of the servers. */
  #isReleased = false

  /** The open pipeline of an equal configuration, else another. Throws `PolicyError`. */
  static of(config: GatewaySettings): ConfiguredPipeline {
    for (const known of configured) if (isDeepStrictEqual(known.#config, config)) return known
    const created = new ConfiguredPipeline(config)
    configured.add(created)
    return created
  }

  private constructor(config: GatewaySettings) {
    this.#config = config
    this.pipeline = new InProcessPipeline(config)
  }

  opened(connection: object, server: object): void {
    this.#connections.set(connection, server)
  }

  ended(connection: object): void {
    this.#connections.delete(connection)
    if (this.#isReleased) this.#closeUnused().catch((err: unknown) => this.#logFailure(err))
  }

  /** Closes the pipeline, but while another server has a connection: then with the last one. */
  async close(server: object): Promise<void> {
    for (const [connection, its] of this.#connections) {
      if (its === server) this.#connections.delete(connection)
    }
    this.#isReleased = true
    await this.#closeUnused()
  }

  async #closeUnused(): Promise<void> {
    if (this.#connections.size > 0) return
    configured.delete(this)
    await this.pipeline.close()
  }

  #logFailure(err: unknown): void {
    this.pipeline.builder.logger.error({ err }, 'the pipeline of governed servers could not be closed')
  }
}

/** Hands a judged message to the server; resolves with its response, undefined for a message without one. */
type Deliver = (message: RpcMessage) => Promise<RpcMessage | undefined>

/** The upstream of a governed server: hands what the proxy sends to the server in the same process. */
class Deliveries implements McpServers {
  /** By the address of the server. */
  #serverInfo = new Map<string, Implementation>()
  /** Deliveries by the abort state of the call, which its requests share. */
  #expected = new WeakMap<Abortable, Deliver>()

  /** `serverInfo` is the response to the proxy's own `initialize`. */
  add({ href }: URL, serverInfo: Implementation): void {
    this.#serverInfo.set(href, serverInfo)
  }

  expect(call: Abortable, deliver: Deliver): void {
    this.#expected.set(call, deliver)
  }

  async send({ href }: URL, { message = {}, signal }: McpRequest, onSent: () => void): Promise<McpResponse> {
    const deliver = this.#expected.get(signal)
    if (deliver === undefined) {
      const result = { serverInfo: this.#serverInfo.get(href) }
      return toMcpResponse({ jsonrpc: '2.0', id: message['id'], result })
    }
    onSent()
    // The server gets a copy, as it may change the message, and the record is of what was judged.
    const response = await abortable(signal, deliver(structuredClone(message)))
    return response === undefined ? noMessage(202) : toMcpResponse(response)
  }
}

/** The response as JSON, as the server may give any values of the program. */
function toMcpResponse(response: RpcMessage): McpResponse {
  const body = Buffer.from(stringifyJson(response))
  return new WholeResponse(200, { 'content-type': JSON_TYPE }, body)
}

// Messages that are recorded and never refused: if the pipeline cannot read one, its record has what JSON can express.

const maxName = 256

/** The request of a message that was refused when it was read. `server` is named in the record. */
export function requestForRecord(
  call: CallControl,
  message: RpcMessage,
  { server, version }: { readonly server: string; readonly version: string },
): CallRequest {
  const { method, params } = message
  const fields = isJsonObject(params) ? params : {}
  const mcpMethod = typeof method === 'string' ? shownName(method) : null
  const isTool = method === 'tools/call' && typeof fields['name'] === 'string' && fields['name'] !== ''
  const name = isTool ? shownName(String(fields['name'])) : (mcpMethod ?? 'response')
  const args = toRepresentable(isTool ? (fields['arguments'] ?? {}) : (params ?? {}))
  const common = { method: mcpMethod, server, version, name, args, idempotencyKey: null }
  call[refineTarget]({ tool: name, mcpMethod, serverVersion: version, toolVersion: version })
  try {
    return callRequest({ ...common, kind: isTool ? 'tool' : 'protocol' })
  } catch (error) {
    if (!(error instanceof ReferenceInputError)) throw error
    return callRequest({ ...common, kind: 'protocol' })
  }
}

/** The response of the server as it is recorded; the client gets the response itself. */
export function completedForRecord(response: RpcMessage | undefined): Completed {
  const completed = { kind: 'completed', sent: 'yes', headers: {}, body: new Uint8Array() } as const
  if (response === undefined) return { ...completed, status: 202, digest: null }
  if (!('result' in response)) return { ...completed, status: 200, digest: null, error: 'UPSTREAM' }
  const { result } = response
  const digest = sha256Hex(canonicalize(toRepresentable(result)))
  const isError = isJsonObject(result) && result['isError'] === true
  return { ...completed, status: 200, digest, ...(isError ? { error: 'UPSTREAM' } : {}) }
}

/** The value if canonical JSON can represent it; else `{ "json": … }` with its JSON text, null if it has none. */
function toRepresentable(value: unknown): JsonValue {
  try {
    canonicalize(value)
    return value as JsonValue
  } catch {
    return { json: jsonText(value) }
  }
}

/** JSON.stringify escapes lone surrogates. */
function jsonText(value: unknown): string | null {
  try {
    return JSON.stringify(value) ?? null
  } catch {
    return null
  }
}

function shownName(name: string): string {
  return name.slice(0, maxName).toWellFormed()
}
