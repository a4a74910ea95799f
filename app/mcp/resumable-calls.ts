// Calls whose response may come on another stream: with an event id, a client resumes the stream at any gateway (MCP
// 2025-11-25, "Resumability and Redelivery"). Before the first event with an id is passed on, the call is stored with what
// is needed to judge and record the response.
import {
  type Call,
  type CallRequest,
  type Clock,
  canonicalInput,
  responseChange,
  responseTimeLeft,
} from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import type { SharedMap } from '@svc/core/store'
import { z } from 'zod'
import { SESSION_ID_HEADER } from '../http/header-names.js'
import { callerKey } from '../upstream/send.js'
import type { McpExchange } from './exchange.js'
import type { RequestId } from './protocol.js'
import type { Resumption } from './response-stream.js'
import { type SharedState, tenantOf, unlessDown } from './shared-state.js'

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
  inputSha256: z.string(),
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
      inputSha256: sha256Hex(canonicalInput(request)),
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
