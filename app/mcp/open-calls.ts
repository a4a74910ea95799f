// Calls whose response may come on another stream than their own: a client that has seen an event id resumes the stream
// with it, at any gateway (MCP 2025-11-25, "Resumability and Redelivery"). What the record and the judgement of the
// response need is kept from before that event is passed on.
import {
  answerChange,
  answerTimeLeft,
  type Call,
  type CallRequest,
  type Clock,
  canonicalInput,
  identity,
  isRefusal,
  principalKeyOf,
  type SharedMap,
} from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import { z } from 'zod'
import type { Resumption } from './answer-stream.js'
import type { McpExchange } from './exchange.js'
import type { RequestId } from './message.js'
import type { SharedState } from './shared-state.js'

/** A day, in milliseconds. */
const maxOpenMs = 86_400_000
/** Of one tenant. */
const maxOpenCalls = 10_000
/** Of an entry, in characters. A call that needs more, such as the read of a long URI, cannot be resumed. */
const maxEntry = 8192

const openCallSchema = z.strictObject({
  /** Milliseconds since the epoch: a later response is refused. */
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
  inputSha256: z.string(),
})

/** A call as another gateway must know it; its arguments are kept as their hash only. */
export type OpenCall = z.infer<typeof openCallSchema>

/** A request, as its client and the server name it. */
export interface RequestInSession {
  /** The server's own id of the session; undefined where none can be resumed. */
  readonly session: unknown
  readonly id: RequestId
}

export class OpenCalls {
  #map: SharedMap
  #clock: Clock

  constructor(state: SharedState, clock: Clock) {
    this.#clock = clock
    this.#map = state.map('mcp-open-calls', { ttlMs: maxOpenMs, maxEntries: maxOpenCalls })
  }

  /** The call of `id` in this session of the caller. Rejects with `Refusal` (`STORE_UNAVAILABLE`). */
  async find(call: Call, exchange: McpExchange, id: RequestId): Promise<OpenCall | undefined> {
    const session = exchange.headers['mcp-session-id']
    if (session === undefined) return undefined
    const [kept] = await this.#map.get(tenantOf(call), [nameOf(call, exchange, { session, id })])
    if (kept === undefined) return undefined
    const open = openCallSchema.parse(JSON.parse(kept))
    return this.#clock.now() < open.until ? open : undefined
  }

  /** The response must not be delivered any more. Never rejects. */
  async remove(call: Call, exchange: McpExchange, asked: RequestInSession): Promise<void> {
    try {
      await this.#map.delete(tenantOf(call), nameOf(call, exchange, asked))
    } catch (fault) {
      // Logged already: the answer could still be resumed until its time is over.
      if (!isRefusal(fault)) throw fault
    }
  }

  resumption(call: Call, exchange: McpExchange, request: CallRequest, asked: RequestInSession): Resumption {
    let isOpen = false
    let hasLeft = false
    const left = call.onDisconnect(() => {
      hasLeft = true
      // The server must see that the stream has ended before it lets the client resume it. With an idempotency key the
      // caller may repeat the call instead, so its answer is read.
      if (isOpen && request.idempotencyKey === null)
        call.abort('CANCELLED', 'The caller may resume the stream.')
    })
    call.afterSettle(left)
    return {
      begin: async () => {
        if (asked.session === undefined || hasLeft || call.get(answerChange) === true) return false
        isOpen = await this.#add(call, exchange, request, asked)
        return isOpen
      },
      withhold: async () => {
        if (isOpen) await this.remove(call, exchange, asked)
      },
    }
  }

  async #add(
    call: Call,
    exchange: McpExchange,
    request: CallRequest,
    asked: RequestInSession,
  ): Promise<boolean> {
    const { traceId, spanId, flags } = call.trace
    const { nodeId, agentRef } = call.agent
    const { kind, method, name, reference } = request
    const timeLeft = call.get(answerTimeLeft)?.() ?? maxOpenMs
    const open: OpenCall = {
      until: this.#clock.now() + timeLeft,
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
      inputSha256: sha256Hex(canonicalInput(request)),
    }
    const entry = JSON.stringify(open)
    if (entry.length > maxEntry) return false
    try {
      await this.#map.set(tenantOf(call), [[nameOf(call, exchange, asked), entry]])
      return true
    } catch (fault) {
      if (!isRefusal(fault)) throw fault
      return false
    }
  }
}

function tenantOf(call: Call): string {
  return call.get(identity)?.tenant ?? ''
}

/** Of the request in its session, which is its caller's. */
function nameOf(call: Call, { server, upstream }: McpExchange, { session, id }: RequestInSession): string {
  const caller = call.get(identity)
  const principal = caller === undefined ? null : principalKeyOf(caller)
  return sha256Hex(JSON.stringify([server, upstream().href, principal, session, id]))
}
