// Lines of the log as log records of OpenTelemetry, redacted as records are. A line about a call has the ids of its record.
import { type Context, ROOT_CONTEXT, TraceFlags, trace } from '@opentelemetry/api'
import { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-http'
import { BatchLogRecordProcessor, LoggerProvider, type ReadableLogRecord } from '@opentelemetry/sdk-logs'
import { type Redactor, redactedValue } from '@svc/core'
import { isJsonObject, parseJsonObject } from '@svc/core/json'
import type { TraceApi } from './call-spans.js'
import { CountingExporter, type OpenSignal, type SignalOptions } from './losses.js'
import { exportLimitMs, numberIn } from './signals.js'

/** Log records over OTLP. */
export function openLogs({ env, version, resource, losses }: SignalOptions): OpenSignal {
  const limitMs = exportLimitMs(env, 'logs')
  const exporter = new CountingExporter<ReadableLogRecord[]>(
    new OTLPLogExporter(),
    losses,
    limitMs,
    ({ length }) => length,
  )
  const processor = new BatchLogRecordProcessor({
    exporter,
    maxQueueSize: losses.maxWaiting,
    maxExportBatchSize: Math.min(numberIn(env, ['OTEL_BLRP_MAX_EXPORT_BATCH_SIZE'], 512), losses.maxWaiting),
    scheduledDelayMillis: numberIn(env, ['OTEL_BLRP_SCHEDULE_DELAY'], 1_000),
    exportTimeoutMillis: limitMs + 1_000,
  })
  const provider = new LoggerProvider({ resource, processors: [processor] })
  const logger = provider.getLogger('svc-sdk', version)
  return {
    log(line, redactor) {
      const record = logRecordOf(line, { ROOT_CONTEXT, TraceFlags, trace }, redactor)
      if (record !== undefined && losses.admits()) logger.emit(record)
    },
    shutdown: () => provider.shutdown(),
  }
}

interface EmittedRecord {
  readonly timestamp: number
  readonly severityNumber: number
  readonly severityText: string
  readonly body: string
  readonly attributes: Record<string, string | number | boolean>
  readonly context: Context
}

/** Characters of an attribute. */
const maxLogText = 8_192

/** By the levels of pino. */
const severities: Readonly<Record<number, readonly [number, string]>> = {
  10: [1, 'TRACE'],
  20: [5, 'DEBUG'],
  30: [9, 'INFO'],
  40: [13, 'WARN'],
  50: [17, 'ERROR'],
  60: [21, 'FATAL'],
}

/** The members that a record of OpenTelemetry has in other places. */
const members: ReadonlySet<string> = new Set([
  'level',
  'time',
  'pid',
  'hostname',
  'name',
  'msg',
  'err',
  'trace_id',
  'span_id',
])

/** The record of a line; undefined for a line that is not a JSON object. */
export function logRecordOf(
  line: string,
  { ROOT_CONTEXT, trace, TraceFlags }: Pick<TraceApi, 'ROOT_CONTEXT' | 'trace' | 'TraceFlags'>,
  redactor: Redactor | undefined,
): EmittedRecord | undefined {
  const entry = parseJsonObject(line)
  if (entry === undefined) return undefined
  const { level, time, trace_id: traceId, span_id: spanId } = entry
  const { msg, err, ...others } = redactor === undefined ? entry : redactedValue(entry, redactor)
  const [severityNumber, severityText] = severities[Number(level)] ?? [0, 'UNSPECIFIED']
  const isOfCall = typeof traceId === 'string' && typeof spanId === 'string'
  return {
    timestamp: Number(time),
    severityNumber,
    severityText,
    body: String(msg ?? ''),
    attributes: {
      ...Object.fromEntries(
        Object.entries(others).flatMap(([key, value]) =>
          members.has(key) ? [] : [[key, attributeOf(value)] as const],
        ),
      ),
      ...(typeof traceId === 'string' && !isOfCall ? { trace_id: traceId } : {}),
      ...exceptionOf(err),
    },
    context: isOfCall
      ? trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: TraceFlags.NONE })
      : ROOT_CONTEXT,
  }
}

/** Attributes by the semantic conventions for exceptions; the causes follow in the stack trace. */
function exceptionOf(err: unknown): Record<string, string> {
  if (!isJsonObject(err)) return {}
  const { type, message } = err
  return {
    'exception.type': shown(type),
    'exception.message': shown(message),
    'exception.stacktrace': shown(stacksOf(err).join('\ncaused by: ')),
  }
}

function stacksOf(err: unknown): readonly unknown[] {
  return isJsonObject(err) ? [err['stack'] ?? err['message'], ...stacksOf(err['cause'])] : []
}

function attributeOf(value: unknown): string | number | boolean {
  return typeof value === 'number' || typeof value === 'boolean' ? value : shown(value)
}

function shown(value: unknown): string {
  return (typeof value === 'string' ? value : (JSON.stringify(value) ?? '')).slice(0, maxLogText)
}
