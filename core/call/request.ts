// The facts of a call: what it asks for, the agent behind it, the trace it belongs to.
import { canonicalize } from '../json/canonical.js'
import type { JsonObject, JsonValue } from '../json/value.js'
import { formatReference } from '../match/reference.js'

export type CallProtocol = 'invoke' | 'a2a' | 'mcp'

/** What a request is for. `protocol` is the open part of MCP: initialize, lists, ping, … */
export type RequestKind = 'tool' | 'prompt' | 'resource' | 'protocol'

/** A request that was read and is valid. */
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
  /** What an MCP request sends beside its arguments, where it sends anything that is judged. */
  readonly params?: JsonObject
  /** Canonical JSON of `params`. */
  readonly canonicalParams?: string
  /** Size in bytes of what the caller sent. */
  readonly bytes: number
  readonly idempotencyKey: string | null
  /** The escalation that an MCP request names in `_meta`, where its header does not. */
  readonly escalationId?: string
  /** The JSON-RPC id of an MCP request. */
  readonly rpcId?: string | number
  /**
   * Canonical JSON of the members of a further round of an MCP request that asked for input (2026-07-28,
   * `input_required`): each round is a request of its own with the same arguments.
   */
  readonly round?: string
}

type DerivedField = 'reference' | 'canonicalArgs' | 'canonicalParams' | 'bytes'

/** A request without what follows from the rest; `bytes` defaults to the size of the canonical arguments. */
export type CallRequestInit = Omit<CallRequest, DerivedField> & { readonly bytes?: number }

/** Throws what `formatReference` and `canonicalize` throw for names and arguments that have no such form. */
export function callRequest(init: CallRequestInit): CallRequest {
  const reference = requestReference(init)
  const canonicalArgs = canonicalize(init.args)
  const request = { bytes: Buffer.byteLength(canonicalArgs), ...init, reference, canonicalArgs }
  return init.params === undefined ? request : { ...request, canonicalParams: canonicalize(init.params) }
}

/** Canonical JSON of all that is judged: the arguments, or `{ arguments, params }` where there are such params. */
export function canonicalInput(request: Pick<CallRequest, 'canonicalArgs' | 'canonicalParams'>): string {
  const { canonicalArgs, canonicalParams } = request
  if (canonicalParams === undefined) return canonicalArgs
  return `{"arguments":${canonicalArgs},"params":${canonicalParams}}`
}

/** The one reference of a tool, prompt or resource; of the rest of a protocol that of the server. */
export function requestReference(request: Pick<CallRequest, 'kind' | 'server' | 'name' | 'version'>): string {
  const { kind, server, name, version } = request
  if (kind === 'prompt') return formatReference({ server, prompt: name, version })
  if (kind === 'resource') return formatReference({ server, resource: name, version })
  if (kind === 'tool') return formatReference({ server, tool: name, version })
  const ofAnyTool = formatReference({ server, tool: '*', version })
  return ofAnyTool.slice(0, ofAnyTool.lastIndexOf('/') + 1)
}

/** The call's place in a distributed trace (W3C Trace Context). */
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

/** The agent as its caller describes it, which may restrict a call but grants nothing. */
export interface CallAgent {
  readonly nodeId: string | null
  readonly agentRef: string | null
  readonly parentRef: string | null
  readonly variables: Record<string, unknown> | null
  readonly metadata: Record<string, unknown> | null
}

/** The target as a record names it. */
export interface CallTarget {
  readonly server: string
  readonly serverVersion: string
  readonly tool: string
  readonly toolVersion: string
  readonly mcpMethod: string | null
}
