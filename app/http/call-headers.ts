// Reads the headers of a call: trace, agent, idempotency key. They describe and restrict; they grant nothing.
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { type CallAgent, type CallTrace, type Ids, isRefusal, Refusal } from '@svc/core'
import { isJsonObject, messageOf, parseJson } from '@svc/core/json'
import { LAST_EVENT_ID_HEADER, PROTOCOL_VERSION_HEADER, SESSION_ID_HEADER } from './header-names.js'

const maxHeaderValue = 1024
const traceparentForm = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/
const base64url = /^[A-Za-z0-9_-]+=*$/
const causeHeaders = [
  ['x-cause-trace', 32],
  ['x-cause-span', 16],
] as const
/** Headers with one value; if one were repeated, two readers on the way might use different values. */
const singletons = [
  'content-type',
  'origin',
  'idempotency-key',
  'x-idempotency-key',
  'x-tenant',
  'x-node-id',
  'x-agent-ref',
  'x-agent-parent-ref',
  'x-agent-state',
  'x-cause-trace',
  'x-cause-span',
  'x-escalation-id',
  'x-escalation-wait',
  'x-escalation-emergency',
  SESSION_ID_HEADER,
  PROTOCOL_VERSION_HEADER,
  'mcp-method',
  'mcp-name',
  LAST_EVENT_ID_HEADER,
]
const noTrace = '0'.repeat(32)
const noSpan = '0'.repeat(16)

/**
 * Continues a valid `traceparent` (W3C Trace Context §3.2, §4.3) and starts a trace otherwise. The cause
 * is what `x-cause-trace` and `x-cause-span` name, else the parent in `traceparent`.
 */
export function traceOf(headers: IncomingHttpHeaders, ids: Ids): CallTrace {
  const { traceparent, 'x-cause-trace': causeTrace, 'x-cause-span': causeSpan } = headers
  const parent = traceparent === undefined ? undefined : parentOf(traceparent)
  const traceId = parent?.traceId ?? ids.traceId()
  const trace: { -readonly [Name in keyof CallTrace]: CallTrace[Name] } = {
    traceId,
    spanId: ids.spanId(),
    flags: ids.traceFlags?.(traceId, parent?.flags) ?? parent?.flags ?? '01',
    state: null,
    causeTraceId: (causeTrace === undefined ? null : hex(causeTrace, 32)) ?? parent?.traceId ?? null,
    causeSpanId: (causeSpan === undefined ? null : hex(causeSpan, 16)) ?? parent?.spanId ?? null,
  }
  if (parent === undefined) return trace
  const { tracestate } = headers
  if (typeof tracestate === 'string') trace.state = tracestate
  trace.parentSpanId = parent.spanId
  return trace
}

function parentOf(
  value: string | string[] | undefined,
): { traceId: string; spanId: string; flags: string } | undefined {
  if (typeof value !== 'string') return undefined
  const parts = traceparentForm.exec(value)
  if (parts === null) return undefined
  const [, version, traceId, spanId, flags] = parts
  if (version === undefined || traceId === undefined || spanId === undefined || flags === undefined)
    return undefined
  if (version === 'ff' || traceId === noTrace || spanId === noSpan) return undefined
  if (version === '00' && value.length !== 55) return undefined
  return { traceId, spanId, flags }
}

function hex(value: string | string[] | undefined, digits: number): string | null {
  if (typeof value !== 'string' || value.length !== digits) return null
  return /^[0-9a-f]+$/.test(value) ? value : null
}

/** The refusal of a request that repeats a header of one value. */
export function repeatedHeader(message: IncomingMessage): Refusal | undefined {
  // If every field has a name of its own, none is repeated.
  if (2 * Object.keys(message.headers).length === message.rawHeaders.length) return undefined
  for (const name of singletons) {
    const value = message.headers[name]
    // Repeated headers arrive joined by a comma; only then the more expensive check is needed.
    if (value === undefined || !value.includes(',')) continue
    if ((message.headersDistinct[name]?.length ?? 0) > 1) {
      return new Refusal('BAD_REQUEST', `${name}: given more than once.`)
    }
  }
  return undefined
}

const agentHeaders = [
  'x-cause-trace',
  'x-cause-span',
  'x-node-id',
  'x-agent-ref',
  'x-agent-parent-ref',
  'x-agent-state',
]

/** The statement of a caller that states nothing about its agent. */
const agent = { nodeId: null, agentRef: null, parentRef: null, variables: null, metadata: null }
const unstated: StatedAgent = { agent }

interface StatedAgent {
  readonly agent: CallAgent
  readonly refusal?: Refusal
}

/** The agent's facts that can be read, and the refusal if a header that is present cannot. */
export function agentOf(headers: IncomingHttpHeaders): StatedAgent {
  let isStated = false
  for (const name of agentHeaders) if (headers[name] !== undefined) isStated = true
  if (!isStated) return unstated
  try {
    checkCause(headers)
    const nodeId = boundedHeader(headers, 'x-node-id')
    const agentRef = boundedHeader(headers, 'x-agent-ref')
    const parentRef = boundedHeader(headers, 'x-agent-parent-ref')
    const { variables, metadata } = agentState(headers['x-agent-state'])
    return { agent: { nodeId, agentRef, parentRef, variables, metadata } }
  } catch (error) {
    if (isRefusal(error)) return { agent, refusal: error }
    throw error
  }
}

function boundedHeader(headers: IncomingHttpHeaders, name: string): string | null {
  const value = headers[name]
  if (value === undefined) return null
  if (typeof value !== 'string' || value === '' || value.length > maxHeaderValue) {
    throw new Refusal('BAD_REQUEST', `${name}: expected one value of 1 to ${maxHeaderValue} characters.`)
  }
  return value
}

function checkCause(headers: IncomingHttpHeaders): void {
  for (const [name, digits] of causeHeaders) {
    if (headers[name] !== undefined && hex(headers[name], digits) === null) {
      throw new Refusal('BAD_REQUEST', `${name}: expected ${digits} lower-case hexadecimal digits.`)
    }
  }
}

/** Base64url (RFC 4648 §5) of `{ "variables"?: object, "metadata"?: object }`. */
function agentState(header: string | string[] | undefined): Pick<CallAgent, 'variables' | 'metadata'> {
  if (header === undefined) return { variables: null, metadata: null }
  const value = typeof header === 'string' && base64url.test(header) ? parseState(header) : undefined
  if (isJsonObject(value)) {
    const { variables = null, metadata = null, ...rest } = value
    if (Object.keys(rest).length === 0 && isObjectOrNull(variables) && isObjectOrNull(metadata)) {
      return { variables, metadata }
    }
  }
  throw new Refusal(
    'BAD_REQUEST',
    'x-agent-state: expected base64url of {"variables"?: object, "metadata"?: object}.',
  )
}

function parseState(text: string): unknown {
  try {
    return parseJson(Buffer.from(text, 'base64url'), 'exact')
  } catch (cause) {
    throw new Refusal('BAD_REQUEST', `x-agent-state: ${messageOf(cause)}`, { cause })
  }
}

function isObjectOrNull(value: unknown): value is Record<string, unknown> | null {
  return value === null || isJsonObject(value)
}

/** The call's idempotency key; throws `Refusal` if the two headers differ or the key is not valid. */
export function idempotencyKeyOf(headers: IncomingHttpHeaders): string | null {
  const plain = headers['idempotency-key']
  const prefixed = headers['x-idempotency-key']
  if (plain !== undefined && prefixed !== undefined && plain !== prefixed) {
    throw new Refusal('BAD_REQUEST', 'idempotency-key and x-idempotency-key are both given and differ.')
  }
  const key = plain ?? prefixed
  if (key === undefined) return null
  if (!isIdempotencyKey(key)) throw new Refusal('BAD_REQUEST', `idempotency-key: ${keyExpected}`)
  return key
}

const keyForm = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/

export const keyExpected = `expected one key of 1 to ${maxHeaderValue} printable ASCII characters.`

/** Whether a header can carry the key unchanged: without trimming, recoding or line breaks. */
export function isIdempotencyKey(key: unknown): key is string {
  return typeof key === 'string' && key.length <= maxHeaderValue && keyForm.test(key)
}
