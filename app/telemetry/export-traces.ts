// Spans over OTLP.
import {
  createTraceState,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import {
  BasicTracerProvider,
  BatchSpanProcessor,
  type ReadableSpan,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace-base'
import { bind, tokens } from '@svc/core'
import { callObserver } from '@svc/core/pipeline'
import { CallSpans, maxSpanText, type PresetIds } from './call-spans.js'
import type { OpenSignal, SignalOptions } from './losses.js'
import { CountingExporter, type SignalLosses } from './losses.js'
import { RandomIds } from './random-ids.js'
import { exportLimitMs } from './signals.js'

export function openTraces({ env, version, resource, losses }: SignalOptions): OpenSignal {
  const ids = new Ids()
  const limitMs = exportLimitMs(env, 'traces')
  const exporter = new CountingExporter<ReadableSpan[]>(
    new OTLPTraceExporter(),
    losses,
    limitMs,
    ({ length }) => length,
  )
  const provider = new BasicTracerProvider({
    idGenerator: ids,
    // Spans wait in a queue, and callers choose some of their values.
    spanLimits: { attributeValueLengthLimit: maxSpanText },
    resource,
    spanProcessors: [
      new AdmittedSpans(new BatchSpanProcessor(exporter, { exportTimeoutMillis: limitMs + 1_000 }), losses),
    ],
  })
  const api = { createTraceState, ROOT_CONTEXT, SpanKind, SpanStatusCode, TraceFlags, trace }
  const tracer = provider.getTracer('svc-sdk', version)
  const calls = new CallSpans(api, tracer, ids)
  // These samplers decide by the flags of the parent, or sample all, as the ids without a sampler do.
  const isDecidedByFlags = /^(parentbased_)?always_on$|^$/.test(env['OTEL_TRACES_SAMPLER'] ?? '')
  return {
    bindTo: (container) => {
      bind(container, callObserver, { useValue: calls })
      if (!isDecidedByFlags) bind(container, tokens.Ids, { useValue: new SampledIds(tracer, ids) })
    },
    shutdown: () => provider.shutdown(),
  }
}

/** Passes the sampled spans on for which the queue has room; the queue itself drops others without a count. */
class AdmittedSpans implements SpanProcessor {
  readonly #queue: SpanProcessor
  readonly #losses: SignalLosses

  constructor(queue: SpanProcessor, losses: SignalLosses) {
    this.#queue = queue
    this.#losses = losses
  }

  onStart(...started: Parameters<SpanProcessor['onStart']>): void {
    this.#queue.onStart(...started)
  }

  onEnd(span: ReadableSpan): void {
    const isSampled = (span.spanContext().traceFlags & TraceFlags.SAMPLED) !== 0
    if (isSampled && this.#losses.admits()) this.#queue.onEnd(span)
  }

  forceFlush(): Promise<void> {
    return this.#queue.forceFlush()
  }

  shutdown(): Promise<void> {
    return this.#queue.shutdown()
  }
}

/**
 * Asks the sampler when a trace begins, as a server that is told that its parent is sampled exports spans below it. The span of the
 * call is sampled alike at its end, by the same ids.
 */
class SampledIds extends RandomIds {
  readonly #tracer: Tracer
  readonly #preset: PresetIds

  constructor(tracer: Tracer, preset: PresetIds) {
    super()
    this.#tracer = tracer
    this.#preset = preset
  }

  traceFlags(traceId: string, callers: string | undefined): string {
    const spanId = this.spanId()
    const traceFlags = Number.parseInt(callers ?? '00', 16)
    const parent = { traceId, spanId, traceFlags, isRemote: true }
    this.#preset.preset({ traceId, spanId })
    const context = callers === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, parent)
    const span = this.#tracer.startSpan('sampled', {}, context)
    const sampled = span.spanContext().traceFlags & TraceFlags.SAMPLED
    return ((traceFlags & ~TraceFlags.SAMPLED) | sampled).toString(16).padStart(2, '0')
  }
}

/** Each id that is preset serves once; the tracer asks for that of the span first, and for a trace only without a parent. */
class Ids implements PresetIds {
  #random = new RandomIds()
  #traceId: string | undefined
  #spanId: string | undefined

  preset({ traceId, spanId }: { readonly traceId: string; readonly spanId: string }): void {
    this.#traceId = traceId
    this.#spanId = spanId
  }

  generateTraceId(): string {
    const traceId = this.#traceId ?? this.#random.traceId()
    this.#traceId = undefined
    return traceId
  }

  generateSpanId(): string {
    const spanId = this.#spanId ?? this.#random.spanId()
    this.#spanId = undefined
    return spanId
  }
}
