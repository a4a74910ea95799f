// A span for each call, and one for each stage that waited and for the upstream. The span of a call has the ids of its
// record, so that a trace leads to its records and back. Names and attributes follow the OpenTelemetry semantic conventions
// for MCP and generative AI (semantic-conventions-genai, revision 55a32cd); those that begin with `svc.` are of this project.
import type { Attributes, Context, Span, Tracer } from '@opentelemetry/api'
import { type Call, identity, mcpFacts, type Redactor, redactor, type Settlement } from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import type { CallObserver } from '@svc/core/pipeline'

/** The part of `@opentelemetry/api` that this file uses; it is loaded only if telemetry is on. */
export type TraceApi = Pick<
  typeof import('@opentelemetry/api'),
  'ROOT_CONTEXT' | 'SpanKind' | 'SpanStatusCode' | 'TraceFlags' | 'trace'
>

/** The ids of the spans to come: those that are set, else random ones. */
export interface PresetIds {
  preset(ids: { readonly traceId: string; readonly spanId: string }): void
}

interface Wait {
  readonly name: string
  readonly from: number
  readonly to: number
}

/** Waits of one call that are kept, for a call that repeats its requests without end. */
const maxWaits = 100

/** Characters of a name or an attribute. */
export const maxSpanText = 1024

export class CallSpans implements CallObserver {
  #api: TraceApi
  #tracer: Tracer
  #ids: PresetIds

  constructor(api: TraceApi, tracer: Tracer, ids: PresetIds) {
    this.#api = api
    this.#tracer = tracer
    this.#ids = ids
  }

  #waits = new WeakMap<Call, Wait[]>()

  began(call: Call): void {
    const from = performance.now()
    this.#waits.set(call, [])
    call.onSettle((settlement) => this.#settled(call, settlement, from))
  }

  waited(call: Call, name: string, from: number, to: number): void {
    const waits = this.#waits.get(call)
    if (waits !== undefined && waits.length < maxWaits) waits.push({ name, from, to })
  }

  #settled(call: Call, settlement: Settlement, from: number): void {
    const waits = this.#waits.get(call) ?? []
    this.#waits.delete(call)
    const { SpanKind, trace } = this.#api
    const redacts = call.get(redactor)
    this.#ids.preset(call.trace)
    const span = this.#tracer.startSpan(
      nameOf(call, redacts).slice(0, maxSpanText),
      { kind: SpanKind.SERVER, startTime: instant(from) },
      this.#parentOf(call),
    )
    // A span that is not sampled has nothing of what follows.
    if (!span.isRecording()) return
    span.setAttributes({ ...attributesOf(call, redacts), ...outcomeAttributes(call, settlement) })
    const inside = trace.setSpan(this.#api.ROOT_CONTEXT, span)
    for (const wait of waits) this.#wait(wait, call, inside)
    this.#setStatus(span, settlement)
    span.end(instant(performance.now()))
  }

  #wait({ name, from, to }: Wait, call: Call, inside: Context): void {
    const isUpstream = name === 'upstream'
    const kind = isUpstream ? this.#api.SpanKind.CLIENT : this.#api.SpanKind.INTERNAL
    const attributes = isUpstream
      ? { 'server.address': call.target.server, 'svc.sent': call.sent }
      : { 'svc.stage': name }
    const span = this.#tracer.startSpan(
      isUpstream ? 'upstream' : `stage ${name}`,
      { kind, startTime: instant(from), attributes },
      inside,
    )
    span.end(instant(to))
  }

  /** The caller's span, if its request named one (W3C Trace Context). */
  #parentOf({ trace: { traceId, flags, parentSpanId } }: Call): Context {
    const { ROOT_CONTEXT, trace } = this.#api
    if (parentSpanId === undefined) return ROOT_CONTEXT
    const traceFlags = Number.parseInt(flags, 16)
    return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId: parentSpanId, traceFlags, isRemote: true })
  }

  #setStatus(span: Span, settlement: Settlement): void {
    const message = errorOf(settlement)
    if (message !== null) span.setStatus({ code: this.#api.SpanStatusCode.ERROR, message })
  }
}

/** The method and the tool or prompt; never a URI, which may hold personal data and has no bound. */
function nameOf(call: Call, redacts: Redactor | undefined): string {
  const request = call.parsedRequest
  if (request === undefined) return call.protocol
  const { kind, method, name } = request
  const operation = method ?? 'execute_tool'
  if (kind === 'protocol') return redacts === undefined ? operation : redacts.text(operation)
  return kind === 'resource' ? operation : `${operation} ${name}`
}

function attributesOf(call: Call, redacts: Redactor | undefined): Attributes {
  const text = (value: string) => (redacts === undefined ? value : redacts.text(value))
  const person = (value: string) => (redacts === undefined ? value : redacts.pseudonym(value))
  const request = call.parsedRequest
  const caller = call.get(identity)
  const { revision, sessionId, rpcId } = call.get(mcpFacts)?.() ?? {}
  const user = caller?.user ?? caller?.userId
  return {
    'svc.protocol': call.protocol,
    'svc.server': text(call.target.server),
    ...(request?.method == null ? {} : { 'mcp.method.name': text(request.method) }),
    ...(request?.kind === 'tool'
      ? { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': request.name }
      : {}),
    ...(request?.kind === 'prompt' ? { 'gen_ai.prompt.name': request.name } : {}),
    ...(request?.kind === 'resource' ? { 'mcp.resource.uri': text(request.name) } : {}),
    ...(revision === undefined ? {} : { 'mcp.protocol.version': text(revision) }),
    // The id of a session is as good as its password.
    ...(sessionId === undefined ? {} : { 'mcp.session.id': sha256Hex(sessionId) }),
    ...(rpcId === undefined ? {} : { 'jsonrpc.request.id': text(String(rpcId)) }),
    ...(caller === undefined ? {} : { 'svc.tenant': caller.tenant }),
    ...(user === undefined ? {} : { 'user.id': person(user) }),
  }
}

function errorOf({ outcome, error }: Settlement): string | null {
  return outcome.kind === 'completed' ? error : outcome.code
}

function outcomeAttributes(call: Call, settlement: Settlement): Attributes {
  const { outcome, sent, bytes } = settlement
  const error = errorOf(settlement)
  const findings = call.judgedFindings()
  const denies = outcome.kind === 'denied' || findings.some(({ effect }) => effect === 'deny')
  return {
    'svc.decision': denies ? 'deny' : 'allow',
    'svc.sent': sent,
    'svc.response.bytes': bytes,
    ...(call.retries === 0 ? {} : { 'svc.retries': call.retries }),
    ...(error === null ? {} : { 'error.type': error }),
    ...(findings.length === 0 ? {} : { 'svc.reasons': [...new Set(findings.map(({ reason }) => reason))] }),
  }
}

/** Milliseconds since the epoch of a time of `performance.now()`. */
function instant(time: number): number {
  return performance.timeOrigin + time
}
