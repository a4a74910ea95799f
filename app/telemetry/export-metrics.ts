// Metrics over OTLP.
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http'
import {
  MeterProvider,
  PeriodicExportingMetricReader,
  type ResourceMetrics,
} from '@opentelemetry/sdk-metrics'
import type { OpenSignal, SignalParts } from './losses.js'
import { CountingExporter } from './losses.js'
import { MetricValues } from './metric-values.js'
import { exportLimitMs, numberIn } from './signals.js'

export function openMetrics({ env, version, metrics, resource, losses }: SignalParts): OpenSignal {
  const interval = numberIn(env, ['OTEL_METRIC_EXPORT_INTERVAL'], 60_000)
  // The reader starts the next export after an interval.
  const limitMs = Math.min(exportLimitMs(env, 'metrics'), 0.9 * interval)
  const reader = new PeriodicExportingMetricReader({
    exporter: new CountingExporter<ResourceMetrics>(new OTLPMetricExporter(), losses, limitMs, () => 1),
    exportIntervalMillis: interval,
    exportTimeoutMillis: interval,
    metricProducers: [new MetricValues(metrics, resource, { name: 'svc-sdk', version })],
  })
  const provider = new MeterProvider({ resource, readers: [reader] })
  return { shutdown: () => provider.shutdown() }
}
