// The MCP proxy without the HTTP server in front of it: a call goes through a pipeline of no stages to an
// upstream of the test's.
import type { IncomingHttpHeaders } from 'node:http'
import {
  type Call,
  type CallRequest,
  type Completed,
  type GatewayEvent,
  isStream,
  type Outcome,
  type ReferenceRule,
  Refusal,
  type ResponseChunk,
  type Settlement,
  services,
} from '@svc/core'
import { CallControl, Pipeline } from '@svc/core/pipeline'
import { type McpExchange, mcpExchange } from 'svc-sdk/internal/mcp/exchange'
import { HttpServers } from 'svc-sdk/internal/mcp/http-servers'
import { AnnotationCache } from 'svc-sdk/internal/mcp/learned-values'
import { McpProxy } from 'svc-sdk/internal/mcp/proxy'
import { SessionBinding } from 'svc-sdk/internal/mcp/session-binding'
import { UndiciDispatcher } from 'svc-sdk/internal/upstream/undici'
import { mcpState } from './mcp-state.js'

export interface Asking {
  readonly method?: McpExchange['method']
  /** Name of the target; `files` if not given. */
  readonly server?: string
  readonly headers?: IncomingHttpHeaders
  /** The message; text is sent as it is. */
  readonly body?: unknown
  readonly rules?: readonly ReferenceRule[]
  /** The error with which the record fails. */
  readonly unrecordable?: boolean
  /** Called with the call before it runs, as a stage would be. */
  readonly prepare?: (call: Call) => void
}

export interface Asked {
  readonly call: Call
  readonly exchange: McpExchange
  readonly outcome: Outcome
  /** Filled when the call has settled. */
  readonly settlements: Settlement[]
  readonly request: CallRequest | undefined
}

export interface TestProxyOptions {
  readonly maxBytes?: number
  readonly probeTimeoutMs?: number
  readonly passParams?: readonly string[]
}

/** A call whose response came on the stream of another request. */
export interface LateCall {
  readonly call: Call
  readonly inputSha256: string
  readonly settlement: Settlement
}

export class TestProxy implements AsyncDisposable {
  readonly proxy: McpProxy
  readonly lateCalls: LateCall[] = []
  failsLateRecords = false
  readonly events: GatewayEvent[] = []
  #sessions: SessionBinding
  #dispatcher = new UndiciDispatcher({
    connectTimeoutMs: 2_000,
    headersTimeoutMs: 5_000,
    idleTimeoutMs: 5_000,
    wholeUpToBytes: 64 * 1024,
  })
  #upstream: URL
  #services: readonly (readonly [symbol, unknown])[] = [
    [
      services.recordOnSettle,
      (call: Call, inputSha256: string) =>
        call.onSettle((settlement) => {
          this.lateCalls.push({ call, inputSha256, settlement })
          if (this.failsLateRecords) throw new Refusal('OUTCOME_UNRECORDED', 'the disk is full')
        }),
    ],
    [services.record, async (event: GatewayEvent) => void this.events.push(event)],
  ]

  constructor(upstream: string, over: TestProxyOptions = {}) {
    this.#upstream = new URL(upstream)
    const { maxBytes = 100_000, probeTimeoutMs = 5_000, passParams = [] } = over
    const clock = { now: Date.now, monotonic: () => performance.now() }
    const state = mcpState(clock)
    this.#sessions = new SessionBinding('a key of the test that is long enough', clock)
    this.proxy = new McpProxy({
      servers: new HttpServers(this.#dispatcher, 60_000, clock),
      clock,
      ids: { traceId: () => '0'.repeat(32), spanId: () => '0'.repeat(16) },
      state,
      annotations: new AnnotationCache(state, clock),
      maxResponseBytes: maxBytes,
      streams: { keepAliveMs: 15_000, abandonedMs: 30_000, abandonedBytes: 1_000_000 },
      client: { name: 'svc-test', version: '1.0.0' },
      probeTimeoutMs,
      passParams,
      denials: 'error',
      sessions: () => this.#sessions,
    })
  }

  async ask(asking: Asking): Promise<Asked> {
    const {
      method = 'POST',
      server = 'files',
      headers = {},
      body,
      rules = [],
      unrecordable = false,
      prepare,
    } = asking
    const exchange: McpExchange = {
      method,
      headers: { ...(method === 'POST' ? { 'content-type': 'application/json' } : {}), ...headers },
      server,
      upstream: () => this.#upstream,
      tasks: [],
      message: undefined,
      id: undefined,
      protocolError: undefined,
      isForeignSession: false,
      learned: {},
      service: (service) => this.#services.find(([token]) => token === service)?.[1] as never,
    }
    const bytes =
      method === 'POST' ? Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)) : null
    const control = new CallControl({
      protocol: 'mcp',
      headers: exchange.headers,
      trace: {
        traceId: '0af7651916cd43dd8448eb211c80319c',
        spanId: 'b7ad6b7169203331',
        flags: '01',
        state: null,
        causeTraceId: null,
        causeSpanId: null,
      },
      agent: { nodeId: null, agentRef: null, parentRef: null, variables: null, metadata: null },
      target: { server, serverVersion: '', tool: '', toolVersion: '', mcpMethod: null },
      receivedAt: 0,
      read: (reading) => this.proxy.read(reading, exchange, bytes),
    })
    const call: Call = control
    call.set(mcpExchange, exchange)
    for (const rule of rules) call.addReferenceRule(rule)
    prepare?.(call)
    const { 'mcp-session-id': session, ...others } = exchange.headers
    if (typeof session === 'string')
      exchange.headers = { ...others, 'mcp-session-id': this.#sessions.bind(control, session, '') }
    const settlements: Settlement[] = []
    call.onSettle((settlement) => {
      settlements.push(settlement)
      if (unrecordable) throw new Refusal('OUTCOME_UNRECORDED', 'the disk is full')
    })
    const pipeline = new Pipeline([], () => this.proxy.dispatch(control))
    const outcome = await pipeline.run(control)
    return { call, exchange, outcome, settlements, request: call.parsedRequest }
  }

  /** The response as the client would read it, refusals encoded. */
  async response(asking: Asking): Promise<Asked & { status: number; text: string; json: () => unknown }> {
    const asked = await this.ask(asking)
    const { outcome, exchange, call } = asked
    if (outcome.kind === 'completed') {
      const text = Buffer.from(await bytesOf(outcome)).toString()
      return { ...asked, status: outcome.status, text, json: () => JSON.parse(text) as unknown }
    }
    const { status, body } = this.proxy.encodeRefusal(exchange, outcome, call)
    const text = String(body)
    return { ...asked, status, text, json: () => JSON.parse(text) as unknown }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#dispatcher.close()
  }
}

export function chunksOf(outcome: Outcome): AsyncIterator<ResponseChunk> {
  if (outcome.kind !== 'completed' || !isStream(outcome.body)) throw new Error('the response is not a stream')
  return outcome.body[Symbol.asyncIterator]()
}

async function bytesOf({ body }: Completed): Promise<Uint8Array> {
  if (!isStream(body)) return body
  const pieces: Uint8Array[] = []
  for await (const chunk of body) pieces.push(chunk.bytes)
  return Buffer.concat(pieces)
}
