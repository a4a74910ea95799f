// A span for each call, and one for each stage that waited and for the upstream. The span of a call has the ids of its
// record, so that a trace leads to its records and back. Names and attributes follow the OpenTelemetry semantic conventions
// for MCP and generative AI (semantic-conventions-genai, revision 0e5e6a8); those that begin with `svc.` are of this project.
import type { Attributes, Context, Span, Tracer } from '@opentelemetry/api'
import { type Call, identity, mcpFacts, type Redactor, redactor, type Settlement } from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import type { CallObserver } from '@svc/core/pipeline'
import { reportedError, upstreamTarget } from '../upstream/send.js'
import type { Target } from '../upstream/target.js'

/** The part of `@opentelemetry/api` that this file uses; it is loaded only if telemetry is on. */
export type TraceApi = Pick<
  typeof import('@opentelemetry/api'),
  'createTraceState' | 'ROOT_CONTEXT' | 'SpanKind' | 'SpanStatusCode' | 'TraceFlags' | 'trace'
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
      nameOf(call, redacts, call.parsedRequest?.method ?? undefined),
      { kind: SpanKind.SERVER, startTime: instant(from) },
      this.#parentOf(call, redacts),
    )
    // A span that is not sampled has nothing of what follows.
    if (!span.isRecording()) return
    span.setAttributes({ ...attributesOf(call, redacts), ...outcomeAttributes(call, settlement) })
    const inside = trace.setSpan(this.#api.ROOT_CONTEXT, span)
    const sending = waits.findLast(({ name }) => name === UPSTREAM)
    for (const wait of waits) {
      if (wait.name === UPSTREAM) this.#request(wait, call, inside, wait === sending ? settlement : undefined)
      else this.#wait(wait, inside)
    }
    this.#setStatus(span, errorOf(settlement))
    span.end(instant(performance.now()))
  }

  #wait({ name, from, to }: Wait, inside: Context): void {
    const kind = this.#api.SpanKind.INTERNAL
    const attributes = { 'svc.stage': name }
    this.#tracer
      .startSpan(`stage ${name}`, { kind, startTime: instant(from), attributes }, inside)
      .end(instant(to))
  }

  /** The span of a request to the server; the last one of a call has the server's error, if there is one. */
  #request({ from, to }: Wait, call: Call, inside: Context, settlement: Settlement | undefined): void {
    const redacts = call.get(redactor)
    const target = call.get(upstreamTarget)
    // The tools of an MCP server are called by MCP for callers of other protocols too.
    const method = call.parsedRequest?.method ?? (target?.isMcp === true ? 'tools/call' : undefined)
    const error = settlement === undefined ? null : errorOf(settlement)
    const isOfServer = error?.startsWith('UPSTREAM') === true
    const span = this.#tracer.startSpan(
      nameOf(call, redacts, method),
      { kind: this.#api.SpanKind.CLIENT, startTime: instant(from) },
      inside,
    )
    span.setAttributes({
      ...requestAttributes(call, redacts, method),
      ...(target === undefined ? {} : addressOf(target)),
      'svc.server': redacts === undefined ? call.target.server : redacts.text(call.target.server),
      'svc.sent': call.sent,
      ...(isOfServer ? errorAttributes(call, error) : {}),
    })
    if (isOfServer) this.#setStatus(span, error)
    span.end(instant(to))
  }

  /** The caller's span, if its request named one (W3C Trace Context). */
  #parentOf(
    { trace: { traceId, flags, state, parentSpanId } }: Call,
    redacts: Redactor | undefined,
  ): Context {
    const { createTraceState, ROOT_CONTEXT, trace } = this.#api
    if (parentSpanId === undefined) return ROOT_CONTEXT
    return trace.setSpanContext(ROOT_CONTEXT, {
      traceId,
      spanId: parentSpanId,
      traceFlags: Number.parseInt(flags, 16),
      isRemote: true,
      // A text of the caller, which may name a person.
      ...(state === null || redacts !== undefined ? {} : { traceState: createTraceState(state) }),
    })
  }

  #setStatus(span: Span, error: string | null): void {
    if (error !== null) span.setStatus({ code: this.#api.SpanStatusCode.ERROR, message: error })
  }
}

const UPSTREAM = 'upstream'

/** The method and the tool or prompt; never a URI, which may hold personal data and has no bound. */
function nameOf(call: Call, redacts: Redactor | undefined, method = 'execute_tool'): string {
  const request = call.parsedRequest
  if (request === undefined) return call.protocol
  const { kind, name } = request
  if (kind === 'protocol')
    return (redacts === undefined ? method : redacts.text(method)).slice(0, maxSpanText)
  return (kind === 'resource' ? method : `${method} ${name}`).slice(0, maxSpanText)
}

/** The attributes that name the method and its object, for requests to the gateway and to a server. */
function requestAttributes(
  call: Call,
  redacts: Redactor | undefined,
  method: string | undefined,
): Attributes {
  const request = call.parsedRequest
  const text = (value: string) => (redacts === undefined ? value : redacts.text(value))
  return {
    ...(method === undefined ? {} : { 'mcp.method.name': text(method) }),
    ...(request?.kind === 'tool'
      ? { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': request.name }
      : {}),
    ...(request?.kind === 'prompt' ? { 'gen_ai.prompt.name': request.name } : {}),
    ...(request?.kind === 'resource' ? { 'mcp.resource.uri': text(request.name) } : {}),
  }
}

function addressOf({ url }: Pick<Target, 'url'>): Attributes {
  if (url.protocol === 'stdio:') return { 'network.transport': 'pipe' }
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port)
  return { 'server.address': url.hostname, 'server.port': port, 'network.transport': 'tcp' }
}

function attributesOf(call: Call, redacts: Redactor | undefined): Attributes {
  const text = (value: string) => (redacts === undefined ? value : redacts.text(value))
  const person = (value: string) => (redacts === undefined ? value : redacts.pseudonym(value))
  const caller = call.get(identity)
  const { revision, sessionId, rpcId } = call.get(mcpFacts)?.() ?? {}
  const user = caller?.user ?? caller?.userId
  return {
    'svc.protocol': call.protocol,
    'svc.server': text(call.target.server),
    ...requestAttributes(call, redacts, call.parsedRequest?.method ?? undefined),
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
  return {
    'svc.decision': call.decisionFor(outcome),
    'svc.sent': sent,
    'svc.response.bytes': bytes,
    ...(call.retries === 0 ? {} : { 'svc.retries': call.retries }),
    ...(error === null ? {} : errorAttributes(call, error)),
    ...(findings.length === 0 ? {} : { 'svc.reasons': [...new Set(findings.map(({ reason }) => reason))] }),
  }
}

/** An error that the server reported is named as the conventions name it, another one by the code of the gateway. */
function errorAttributes(call: Call, error: string): Attributes {
  const reported = error === 'UPSTREAM' ? call.get(reportedError) : undefined
  if (reported === undefined) return { 'error.type': error }
  const { type, isRpcCode } = reported
  return { 'error.type': type, ...(isRpcCode ? { 'rpc.response.status_code': type } : {}) }
}

/** Milliseconds since the epoch of a time of `performance.now()`. */
function instant(time: number): number {
  return performance.timeOrigin + time
}
