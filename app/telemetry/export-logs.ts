// Log records over OTLP.
import { ROOT_CONTEXT, TraceFlags, trace } from '@opentelemetry/api'
import { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-http'
import { BatchLogRecordProcessor, LoggerProvider, type ReadableLogRecord } from '@opentelemetry/sdk-logs'
import { logRecordOf } from './log-records.js'
import type { OpenSignal, SignalParts } from './losses.js'
import { CountingExporter } from './losses.js'
import { exportLimitMs, numberIn } from './signals.js'

export function openLogs({ env, version, resource, losses }: SignalParts): OpenSignal {
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
