// What a request says: of what it asks for, of the agent behind it, and of the trace it stands in.
import type { JsonValue } from '../json/value.js'

export type CallProtocol = 'invoke' | 'a2a' | 'mcp'

/** What kind of thing a request asks for. `protocol` is the open part of MCP: initialize, lists, ping, … */
export type RequestKind = 'tool' | 'prompt' | 'resource' | 'protocol'

/** A request that was read and understood. */
export interface CallRequest {
  readonly kind: RequestKind
  /** The MCP method; null over the invoke protocol. */
  readonly method: string | null
  readonly server: string
  /** Tool, prompt or resource; the MCP method where kind is `protocol`. */
  readonly name: string
  readonly version: string
  /** `mcp://<server>/<tool>@<version>` and its like; for kind `protocol` just `mcp://<server>/`. */
  readonly reference: string
  readonly args: JsonValue
  /** Canonical JSON of `args`. */
  readonly canonicalArgs: string
  /** Size in bytes of what the caller sent. */
  readonly bytes: number
  readonly idempotencyKey: string | null
  /** The escalation that an MCP request comes back with in `_meta`, where its header does not say it. */
  readonly escalationId?: string
  /** The id under which an MCP request is answered (JSON-RPC 2.0 §4). */
  readonly rpcId?: string | number
  /**
   * Canonical JSON of what makes this a further round of an MCP request that asked for input (2026-07-28,
   * `input_required`): each round is a request of its own under the same arguments.
   */
  readonly round?: string
}

/** Where the call stands in a distributed trace (W3C Trace Context). */
export interface CallTrace {
  /** 32 lower-case hex digits. */
  readonly traceId: string
  /** 16 lower-case hex digits: this hop. */
  readonly spanId: string
  /** 2 hex digits. */
  readonly flags: string
  readonly state: string | null
  readonly causeTraceId: string | null
  readonly causeSpanId: string | null
}

/** What the caller says of the agent behind it. It restricts, it never grants. */
export interface CallAgent {
  readonly nodeId: string | null
  readonly agentRef: string | null
  readonly parentRef: string | null
  readonly variables: Record<string, unknown> | null
  readonly metadata: Record<string, unknown> | null
}

/** What a record says of the target, as far as it is known when it is written. */
export interface CallTarget {
  server: string
  serverVersion: string
  tool: string
  toolVersion: string
  mcpMethod: string | null
}
