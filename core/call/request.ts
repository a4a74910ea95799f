// The parsed request of a call, its agent, trace and target.

import { canonicalizeExact } from '../json/canonical.js'
import { sha256Hex, writeDigest } from '../json/hash.js'
import { membersLike } from '../json/members.js'
import { isJsonObject } from '../json/parse-object.js'
import type { JsonNumber } from '../json/text.js'
import type { JsonObject, JsonValue } from '../json/value.js'
import { formatReference, pathReadings, type ToolReference, toolReference } from '../match/reference.js'

export type CallProtocol = 'invoke' | 'a2a' | 'mcp'

/** The kind of a request. `protocol` is the open part of MCP: initialize, lists, ping, … */
export type RequestKind = 'tool' | 'prompt' | 'resource' | 'protocol'

/** A valid request. */
export interface CallRequest {
  readonly kind: RequestKind
  /** The MCP method; null over the invoke protocol. */
  readonly method: string | null
  readonly server: string
  /** Tool, prompt or resource; the MCP method if kind is `protocol`. */
  readonly name: string
  readonly version: string
  /** The canonical reference, such as `mcp://<server>/<tool>@<version>`; for kind `protocol` `mcp://<server>/`. */
  readonly reference: string
  /**
   * The reference, and others that the upstream may read instead: more than one only if a name with "@" travels in a
   * URL path. All must be allowed, and the strictest rule on any of them counts.
   */
  readonly readings: readonly string[]
  readonly args: JsonValue
  /** Canonical JSON of `args`, with exact numbers. */
  readonly canonicalArgs: string
  /** The inspected params of an MCP request beside its arguments; absent if there are none. */
  readonly params?: JsonObject
  /** Canonical JSON of `params`. */
  readonly canonicalParams?: string
  /** Set if the canonical input has numbers that no double represents. */
  readonly inputForm?: 'exact'
  /** Size of the caller's body in bytes. */
  readonly bytes: number
  readonly idempotencyKey: string | null
  /** The escalation id of an MCP request from `_meta`, if the header has none. */
  readonly escalationId?: string
  /** Why the call of an MCP request is to run before it is approved, from `_meta`. */
  readonly emergency?: string
  /** The id of an MCP request (JSON-RPC 2.0 §4). */
  readonly rpcId?: string | number | JsonNumber
  /**
   * Canonical JSON of the caller's input for a further round of an MCP request (2026-07-28, `input_required`): each round
   * is a separate request with the same arguments.
   */
  readonly round?: string
  /** The references of the tools whose user interface the resource is (MCP Apps): who may use one of them may read it. */
  readonly shownBy?: readonly string[]
  /** The references of the tools whose tasks an MCP request is about: its response is theirs. */
  readonly ofTasks?: readonly string[]
}

/** The reference of a tool and its readings, as a request has them. */
export type ToolReferences = Pick<CallRequest, 'reference' | 'readings'>

type DerivedField = 'reference' | 'readings' | 'canonicalArgs' | 'canonicalParams' | 'inputForm'
type OptionalField = 'params' | 'escalationId' | 'emergency' | 'rpcId' | 'round' | 'shownBy' | 'ofTasks'

/** A request without its derived fields; `bytes` defaults to the size of the canonical arguments. */
export type CallRequestInit = Omit<CallRequest, DerivedField | OptionalField | 'bytes'> & {
  readonly [K in OptionalField | 'bytes']?: CallRequest[K] | undefined
} & {
  /** Whether the tool's name travels in a URL path to the upstream. */
  readonly isInPath?: boolean
  /** Those of the tool, if they are known. */
  readonly references?: ToolReferences | undefined
}

/** Throws the errors of `formatReference` and `canonicalize` for invalid names and arguments. */
export function callRequest(init: CallRequestInit): CallRequest {
  const { reference, readings } = init.references ?? referencesOf(init)
  const { text: canonicalArgs, range } = canonicalizeExact(init.args)
  const { kind, method, server, name, version, args, idempotencyKey } = init
  const bytes = init.bytes ?? Buffer.byteLength(canonicalArgs)
  const request: { -readonly [K in keyof CallRequest]: CallRequest[K] } = {
    kind,
    method,
    server,
    name,
    version,
    reference,
    readings,
    args,
    canonicalArgs,
    bytes,
    idempotencyKey,
  }
  if (init.params !== undefined) {
    request.params = init.params
    const params = canonicalizeExact(init.params)
    request.canonicalParams = params.text
    if (params.range !== 'double') request.inputForm = 'exact'
  }
  if (range !== 'double') request.inputForm = 'exact'
  if (init.escalationId !== undefined) request.escalationId = init.escalationId
  if (init.emergency !== undefined) request.emergency = init.emergency
  if (init.rpcId !== undefined) request.rpcId = init.rpcId
  if (init.round !== undefined) request.round = init.round
  if (init.shownBy !== undefined) request.shownBy = init.shownBy
  if (init.ofTasks !== undefined) request.ofTasks = init.ofTasks
  return frozen(request)
}

function referencesOf(init: CallRequestInit): ToolReferences {
  const { server, name, version, isInPath } = init
  if (isInPath === true) return pathReferences({ server, tool: name, version })
  const reference = requestReference(init)
  return { reference, readings: [reference] }
}

/** The references of a tool whose name travels in a URL path to the upstream. Throws the errors of `formatReference`. */
export function pathReferences(parts: ToolReference): ToolReferences {
  const reference = toolReference(parts)
  return { reference, readings: Object.freeze([reference, ...pathReadings(parts)]) }
}

/** The request, immutable in depth: a stage must not change what other stages have inspected. */
export function frozen(request: CallRequest): CallRequest {
  freeze(request.args)
  if (request.params !== undefined) freeze(request.params)
  return Object.freeze(request)
}

function freeze(value: JsonValue): void {
  if (typeof value !== 'object' || value === null) return
  for (const member of Object.values(value)) freeze(member)
  Object.freeze(value)
}

/**
 * Canonical JSON of all that stages inspect: the arguments, or `{ arguments, params }` if there are such params.
 * Arguments that have exactly these two members are written as `{ arguments, params: {} }`, so that no two inputs have
 * one text.
 */
export function canonicalInput(
  request: Pick<CallRequest, 'args' | 'canonicalArgs' | 'canonicalParams'>,
): string {
  const { args, canonicalArgs, canonicalParams } = request
  const hasInputMembers =
    isJsonObject(args) &&
    Object.hasOwn(args, 'arguments') &&
    Object.hasOwn(args, 'params') &&
    Object.keys(args).length === 2
  if (canonicalParams === undefined && !hasInputMembers) return canonicalArgs
  return `{"arguments":${canonicalArgs},"params":${canonicalParams ?? '{}'}}`
}

/** The digest of `canonicalInput`, as `writeDigest` has it. */
export function digestOfInput(request: CallRequest): string {
  const sha256 = sha256Hex(canonicalInput(request))
  const { inputForm: form } = request
  return form === undefined ? sha256 : writeDigest({ sha256, form })
}

/**
 * The input of `canonicalInput` that makes a call the same as another one: of two calls with the same text one repeats the
 * other. `_meta` does not count, as clients write there what differs in each repeat, except the members at these paths of
 * rules, such as `['params', '_meta', 'acme/amount']`.
 */
export function repeatableInput(
  request: CallRequest,
  reads: readonly (readonly (string | number)[])[] = [],
): string {
  const { params: { _meta: meta, ...others } = {} } = request
  if (meta === undefined) return canonicalInput(request)
  const read = reads.flatMap(([root, member, name]) =>
    root === 'params' && member === '_meta' && typeof name === 'string' && isJsonObject(meta)
      ? membersLike(meta, name)
      : [],
  )
  const counted = isJsonObject(meta) ? Object.entries(meta).filter(([name]) => read.includes(name)) : []
  const params = counted.length === 0 ? others : { ...others, _meta: Object.fromEntries(counted) }
  const { canonicalParams: _, ...rest } = request
  return canonicalInput(
    Object.keys(params).length === 0 ? rest : { ...rest, canonicalParams: canonicalizeExact(params).text },
  )
}

/** The canonical reference of a tool, prompt or resource; for kind `protocol` that of the server. */
export function requestReference(request: Pick<CallRequest, 'kind' | 'server' | 'name' | 'version'>): string {
  const { kind, server, name, version } = request
  if (kind === 'tool') return toolReference({ server, tool: name, version })
  if (kind === 'prompt') return formatReference({ server, prompt: name, version })
  if (kind === 'resource') return formatReference({ server, resource: name, version })
  const ofAnyTool = formatReference({ server, tool: '*', version })
  return ofAnyTool.slice(0, ofAnyTool.lastIndexOf('/') + 1)
}

/** The position of the call in a distributed trace (W3C Trace Context). */
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
  /** The caller's span, if its request names one. */
  readonly parentSpanId?: string
}

/** The caller's statement about its agent, without proof: it can restrict access and never grant it. */
export interface CallAgent {
  readonly nodeId: string | null
  readonly agentRef: string | null
  readonly parentRef: string | null
  readonly variables: Record<string, unknown> | null
  readonly metadata: Record<string, unknown> | null
}

/** The target as it is recorded. */
export interface CallTarget {
  readonly server: string
  readonly serverVersion: string
  readonly tool: string
  readonly toolVersion: string
  readonly mcpMethod: string | null
}
