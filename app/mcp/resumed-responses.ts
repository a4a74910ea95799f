// Responses on a GET stream to requests whose own stream broke off. Each is judged, hashed and recorded as a call whose
// cause is the original call. A response without a known request is withheld.
import {
  type Call,
  type Clock,
  type Denied,
  definitionFilter,
  denied,
  type Failed,
  failed,
  type Ids,
  identity,
  type ResponseChunk,
  redactor,
  type Slot,
  serverMethodRules,
  serverRequestRules,
  services,
  verdict,
} from '@svc/core'
import { CallControl, takeReferenceRules } from '@svc/core/pipeline'
import { SESSION_ID_HEADER } from '../http/header-names.js'
import { attachExchange, type McpExchange } from './exchange.js'
import { encodeRpcError } from './message-outcome.js'
import type { RequestId } from './protocol.js'
import { type LearningCaches, ResponseFilter } from './response-filter.js'
import type { ResumableCall, ResumableCalls } from './resumable-calls.js'
import { recordedResult } from './rpc-response.js'
import { eventBytes, type McpEvent, type ReceivedMessage, responseTo, showEvent } from './servers.js'

const withheld = failed('OUTCOME_UNRECORDED', 'The response to this request was withheld.')
const noLongerAllowed = denied(
  'TOOL_NOT_ALLOWED',
  'The response is to a request that may no longer be made.',
  {
    denial: { level: 'gateway', type: 'mcp', reason: 'tool_not_in_allowlist' },
  },
)

type MessageEvent = McpEvent & ReceivedMessage

export interface ResumedResponsesParts {
  readonly resumableCalls: ResumableCalls
  readonly caches: LearningCaches
  readonly clock: Clock
  readonly ids: Ids
}

export class ResumedResponses {
  #call: CallControl
  #exchange: McpExchange
  #parts: ResumedResponsesParts
  #isWithheldRecorded = false

  /** `call` is that of the GET which opened the stream. */
  constructor(call: CallControl, exchange: McpExchange, parts: ResumedResponsesParts) {
    this.#call = call
    this.#exchange = exchange
    this.#parts = parts
  }

  /** Rejects with `Refusal` if the request cannot be looked up: the client may resume the stream again. */
  async chunkOf(received: MessageEvent): Promise<ResponseChunk> {
    const { id } = received.message
    if (typeof id !== 'string' && typeof id !== 'number') return this.#withheld(received, null)
    const open = await this.#parts.resumableCalls.find(this.#call, this.#exchange, id)
    const record = this.#exchange.service?.(services.recordOnSettle)
    if (open === undefined || record === undefined) return this.#withheld(received, id)
    const event = responseTo(received, id)
    const exchange: McpExchange = { ...this.#exchange, learned: { rpcId: id }, tasks: [] }
    const resumed = this.#resumedCall(open, exchange)
    record(resumed, open.inputSha256)
    const instead = (outcome: Failed): Uint8Array => {
      const asked = { session: exchange.headers[SESSION_ID_HEADER], id }
      this.#parts.resumableCalls.remove(this.#call, exchange, asked)
      return this.#errorIn(event, id, outcome)
    }
    if (open.kind !== 'protocol' && !resumed.mayRequest(open.reference, open.kind)) {
      resumed.addFinding({ reason: 'tool_not_in_allowlist', stage: 'mcp', level: 'gateway' })
      const bytes = this.#errorIn(event, id, noLongerAllowed)
      return { bytes, response: { call: resumed, digest: null, error: noLongerAllowed.code, instead } }
    }
    const filter = new ResponseFilter(resumed, open, exchange, this.#parts.caches)
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
        spanId: this.#parts.ids.spanId(),
        flags,
        state: null,
        causeTraceId: traceId,
        causeSpanId: spanId,
      },
      target,
      receivedAt: this.#parts.clock.now(),
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
