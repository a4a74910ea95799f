// Responses on a GET stream to requests whose own stream broke off. Each is judged, hashed and recorded as a call whose
// cause is the original call. A response without a known request is withheld.
import {
  type Call,
  type CallRequest,
  type Clock,
  type Denied,
  definitionFilter,
  denied,
  digestOfInput,
  type Failed,
  failed,
  type Ids,
  identity,
  type ResponseChunk,
  redactor,
  responseChange,
  responseTimeLeft,
  type Slot,
  serverMethodRules,
  serverRequestRules,
  services,
  verdict,
} from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import { CallControl, takeReferenceRules } from '@svc/core/pipeline'
import type { SharedMap } from '@svc/core/store'
import { z } from 'zod'
import { SESSION_ID_HEADER } from '../http/header-names.js'
import { callerKey } from '../upstream/send.js'
import { attachExchange, type McpExchange } from './exchange.js'
import { encodeRpcError } from './message-outcome.js'
import type { RequestId } from './protocol.js'
import { type LearningCaches, ResponseFilter } from './response-filter.js'
import type { Resumption } from './response-stream.js'
import { recordedResult } from './rpc-response.js'
import { eventBytes, type McpEvent, type ReceivedMessage, responseTo, showEvent } from './servers.js'
import { type SharedState, tenantOf, unlessDown } from './shared-state.js'

const withheld = failed('OUTCOME_UNRECORDED', 'The response to this request was withheld.')
const noLongerAllowed = denied(
  'TOOL_NOT_ALLOWED',
  'The response is to a request that may no longer be made.',
  {
    denial: { level: 'gateway', type: 'mcp', reason: 'tool_not_in_allowlist' },
  },
)

type MessageEvent = McpEvent & ReceivedMessage

export interface ResumedResponsesOptions {
  readonly resumableCalls: ResumableCalls
  readonly caches: LearningCaches
  readonly clock: Clock
  readonly ids: Ids
}

export class ResumedResponses {
  #call: CallControl
  #exchange: McpExchange
  #options: ResumedResponsesOptions
  #isWithheldRecorded = false

  /** `call` is that of the GET which opened the stream. */
  constructor(call: CallControl, exchange: McpExchange, options: ResumedResponsesOptions) {
    this.#call = call
    this.#exchange = exchange
    this.#options = options
  }

  /** Rejects with `Refusal` if the request cannot be looked up: the client may resume the stream again. */
  async chunkOf(received: MessageEvent): Promise<ResponseChunk> {
    const { id } = received.message
    if (typeof id !== 'string' && typeof id !== 'number') return this.#withheld(received, null)
    const open = await this.#options.resumableCalls.find(this.#call, this.#exchange, id)
    const record = this.#exchange.service?.(services.recordOnSettle)
    if (open === undefined || record === undefined) return this.#withheld(received, id)
    const event = responseTo(received, id)
    const exchange: McpExchange = { ...this.#exchange, learned: { rpcId: id }, tasks: [] }
    const resumed = this.#resumedCall(open, exchange)
    record(resumed, open.inputDigest)
    const instead = (outcome: Failed): Uint8Array => {
      const asked = { session: exchange.headers[SESSION_ID_HEADER], id }
      this.#options.resumableCalls.remove(this.#call, exchange, asked)
      return this.#errorIn(event, id, outcome)
    }
    if (open.kind !== 'protocol' && !resumed.mayRequest(open.reference, open.kind)) {
      resumed.addFinding({ reason: 'tool_not_in_allowlist', stage: 'mcp', level: 'gateway' })
      const bytes = this.#errorIn(event, id, noLongerAllowed)
      return { bytes, response: { call: resumed, digest: null, error: noLongerAllowed.code, instead } }
    }
    const filter = new ResponseFilter(resumed, open, exchange, this.#options.caches)
    const filtered = await filter.response(event.message, event.text)
    const { bytes, text } = showEvent(event, filtered)
    return { bytes, response: { call: resumed, ...(await recordedResult(filtered, text)), instead } }
  }

  /** A call of the same caller and trace, whose cause is the original call. */
  #resumedCall(open: ResumableCall, exchange: McpExchange): CallControl {
    const { traceId, spanId, flags, nodeId, agentRef, target } = open
    const resumed = new CallControl({
      protocol: 'mcp',
      headers: {},
      agent: { nodeId, agentRef, parentRef: null, variables: null, metadata: null },
      trace: {
        traceId,
        spanId: this.#options.ids.spanId(),
        flags,
        state: null,
        causeTraceId: traceId,
        causeSpanId: spanId,
      },
      target,
      receivedAt: this.#options.clock.now(),
      read: () => Promise.reject(new Error('a resumed response has no request')),
    })
    copySlot(identity, this.#call, resumed)
    copySlot(redactor, this.#call, resumed)
    copySlot(verdict, this.#call, resumed)
    copySlot(definitionFilter, this.#call, resumed)
    copySlot(serverRequestRules, this.#call, resumed)
    copySlot(serverMethodRules, this.#call, resumed)
    resumed[takeReferenceRules](this.#call)
    attachExchange(resumed, exchange)
    return resumed
  }

  /** Records withheld responses once for a stream, because a server may send any number of them. */
  async #withheld(event: MessageEvent, id: RequestId | null): Promise<ResponseChunk> {
    if (!this.#isWithheldRecorded) {
      this.#isWithheldRecorded = true
      const caller = this.#call.get(identity)
      const { traceId, spanId } = this.#call.trace
      await this.#exchange.service?.(services.record)?.({
        name: 'mcp/response_withheld',
        tenant: caller?.tenant ?? '',
        traceId,
        causeSpanId: spanId,
        decision: 'deny',
        ...(caller === undefined ? {} : { principal: caller }),
        findings: [
          {
            reason: 'response_without_request',
            stage: 'mcp',
            effect: 'deny',
            detail: `a response of ${this.#exchange.server} to a request that is not known, or whose response was withheld`,
          },
        ],
        error: withheld.code,
      })
    }
    return { bytes: this.#errorIn(event, id, withheld) }
  }

  #errorIn(event: MessageEvent, id: RequestId | null, outcome: Denied | Failed): Uint8Array {
    return eventBytes(event, encodeRpcError(id, outcome, { trace: this.#call.trace, sent: 'yes' }))
  }
}

function copySlot<T>(slot: Slot<T>, from: Call, to: Call): void {
  const value = from.get(slot)
  if (value !== undefined) to.set(slot, value)
}

// Calls whose response may come on another stream: with an event id, a client resumes the stream at any gateway (MCP
// 2025-11-25, "Resumability and Redelivery"). Before the first event with an id is passed on, the call is stored with what
// is needed to judge and record the response.

/** A day, in milliseconds. */
const keptMs = 86_400_000
/** Calls of one tenant. */
const maxCalls = 10_000
/** Characters of an entry. A call that needs more, such as the read of a long URI, cannot be resumed. */
const maxEntry = 8192

const resumableCallSchema = z.strictObject({
  /** Milliseconds since the epoch, after which a response is refused. */
  until: z.number(),
  kind: z.enum(['tool', 'prompt', 'resource', 'protocol']),
  method: z.string().nullable(),
  name: z.string(),
  reference: z.string(),
  target: z.strictObject({
    server: z.string(),
    serverVersion: z.string(),
    tool: z.string(),
    toolVersion: z.string(),
    mcpMethod: z.string().nullable(),
  }),
  traceId: z.string(),
  spanId: z.string(),
  flags: z.string(),
  nodeId: z.string().nullable(),
  agentRef: z.string().nullable(),
  inputDigest: z.string(),
  /** Whether the response came on the call's own stream, so that another request may use the id. */
  isCompleted: z.boolean(),
})

/** A call as other gateways know it, with a hash in place of its arguments. */
export type ResumableCall = z.infer<typeof resumableCallSchema>

/** Names a request in a session. */
export interface RequestInSession {
  /** The server's own id of the session; undefined if the stream cannot be resumed. */
  readonly session: unknown
  readonly id: RequestId
}

export class ResumableCalls {
  #map: SharedMap
  #clock: Clock

  constructor(state: SharedState, clock: Clock) {
    this.#clock = clock
    this.#map = state.map('mcp-open-calls', { ttlMs: keptMs, maxEntries: maxCalls })
  }

  /** The call of the request `id` in this session of the caller. Rejects with `Refusal` (`STORE_UNAVAILABLE`). */
  async find(call: Call, exchange: McpExchange, id: RequestId): Promise<ResumableCall | undefined> {
    const session = exchange.headers[SESSION_ID_HEADER]
    if (session === undefined) return undefined
    const [kept] = await this.#map.get(tenantOf(call), [nameOf(call, exchange, { session, id })])
    if (kept === undefined) return undefined
    const open = parseCall(kept)
    return this.#clock.now() < open.until ? open : undefined
  }

  /** The response must not be delivered any more. Never rejects. */
  async remove(call: Call, exchange: McpExchange, asked: RequestInSession): Promise<void> {
    // If the store is down, the response can be resumed until the entry expires.
    await unlessDown(this.#map.delete(tenantOf(call), nameOf(call, exchange, asked)))
  }

  resumption(call: Call, exchange: McpExchange, request: CallRequest, asked: RequestInSession): Resumption {
    let open: ResumableCall | undefined
    let hasLeft = false
    const left = call.onDisconnect(() => {
      hasLeft = true
      // The server lets the client resume a stream only after it has ended. With an idempotency key the caller may repeat
      // the call instead, so the response is read.
      if (open !== undefined && request.idempotencyKey === null)
        call.abort('CANCELLED', 'The caller may resume the stream.')
    })
    call.afterSettle(left)
    return {
      begin: async () => {
        if (asked.session === undefined || hasLeft || call.get(responseChange) === true) return false
        const entry = this.#entryOf(call, request)
        const isAdded = await this.#add(tenantOf(call), nameOf(call, exchange, asked), entry)
        if (isAdded) open = entry
        return isAdded
      },
      completed: async () => {
        if (open === undefined) return
        const entry = JSON.stringify({ ...open, isCompleted: true })
        await unlessDown(this.#map.set(tenantOf(call), [[nameOf(call, exchange, asked), entry]]))
      },
      withhold: async () => {
        if (open !== undefined) await this.remove(call, exchange, asked)
      },
    }
  }

  #entryOf(call: Call, request: CallRequest): ResumableCall {
    const { kind, method, name, reference } = request
    const { traceId, spanId, flags } = call.trace
    const { nodeId, agentRef } = call.agent
    return {
      until: this.#clock.now() + (call.get(responseTimeLeft)?.() ?? keptMs),
      kind,
      method,
      name,
      reference,
      target: call.target,
      traceId,
      spanId,
      flags,
      nodeId,
      agentRef,
      inputDigest: digestOfInput(request),
      isCompleted: false,
    }
  }

  /**
   * False if the call cannot be kept, or if another request with this id is running in the session: its entry stays, because
   * its response would otherwise be taken for the response to this call.
   */
  async #add(tenant: string, name: string, open: ResumableCall): Promise<boolean> {
    const entry = JSON.stringify(open)
    if (entry.length > maxEntry) return false
    const isAdded = async (): Promise<boolean> => {
      const known = await this.#map.add(tenant, name, entry)
      if (known === undefined) return true
      const { isCompleted, until } = parseCall(known)
      const isOver = isCompleted || until <= this.#clock.now()
      if (isOver) await this.#map.set(tenant, [[name, entry]])
      return isOver
    }
    return (await unlessDown(isAdded())) ?? false
  }
}

function parseCall(entry: string): ResumableCall {
  return resumableCallSchema.parse(JSON.parse(entry))
}

/** The key of a request: its caller, server, session and id. */
function nameOf(call: Call, { server, upstream }: McpExchange, { session, id }: RequestInSession): string {
  return sha256Hex(JSON.stringify([server, upstream().href, callerKey(call), session, id]))
}
