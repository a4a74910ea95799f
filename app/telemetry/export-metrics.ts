// The metrics of the gateway as OTLP has them. They are counted once, for Prometheus and for OTLP.
import type { HrTime } from '@opentelemetry/api'
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http'
import {
  AggregationTemporality,
  type CollectionResult,
  type DataPoint,
  DataPointType,
  type Histogram,
  MeterProvider,
  type MetricData,
  type MetricProducer,
  PeriodicExportingMetricReader,
  type ResourceMetrics,
} from '@opentelemetry/sdk-metrics'
import { CountingExporter, type OpenSignal, type SignalOptions } from './losses.js'
import type { GatewayMetrics, MetricFamily } from './metrics/gateway-metrics.js'
import { exportLimitMs, numberIn } from './signals.js'

/** Metrics over OTLP. */
export function openMetrics({ env, version, metrics, resource, losses }: SignalOptions): OpenSignal {
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

type Resource = CollectionResult['resourceMetrics']['resource']
type Scope = { readonly name: string; readonly version: string }
type Samples = MetricFamily['values']

/** `ValueType.DOUBLE` of `@opentelemetry/api`. */
const DOUBLE = 1

export class MetricValues implements MetricProducer {
  /** All values are cumulative since then. */
  readonly #since = hrTime(performance.timeOrigin)

  readonly #metrics: GatewayMetrics
  readonly #resource: Resource
  readonly #scope: Scope

  constructor(metrics: GatewayMetrics, resource: Resource, scope: Scope) {
    this.#metrics = metrics
    this.#resource = resource
    this.#scope = scope
  }

  async collect(): Promise<CollectionResult> {
    const now = hrTime(Date.now())
    const [resource, scope] = [this.#resource, this.#scope]
    const families = await this.#metrics.families()
    const metrics = families.flatMap((family) => this.#dataOf(family, now))
    return { resourceMetrics: { resource, scopeMetrics: [{ scope, metrics }] }, errors: [] }
  }

  #dataOf({ name, help, type, values }: MetricFamily, now: HrTime): MetricData[] {
    const point = <T>(labels: Samples[number]['labels'], value: T): DataPoint<T> => {
      return { startTime: this.#since, endTime: now, attributes: { ...labels }, value }
    }
    const base = {
      descriptor: { name, description: help, unit: unitOf(name), valueType: DOUBLE },
      aggregationTemporality: AggregationTemporality.CUMULATIVE,
    }
    if (String(type) === 'histogram') {
      const dataPoints = histogramsIn(values).map(({ labels, value }) => point(labels, value))
      return [{ ...base, dataPointType: DataPointType.HISTOGRAM, dataPoints }]
    }
    const dataPoints = values
      .filter(({ value }) => Number.isFinite(value))
      .map(({ labels, value }) => point(labels, value))
    if (dataPoints.length === 0) return []
    if (String(type) === 'counter')
      return [{ ...base, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints }]
    return [{ ...base, dataPointType: DataPointType.GAUGE, dataPoints }]
  }
}

/** Units of UCUM, from the names as Prometheus has them. */
function unitOf(name: string): string {
  if (/_seconds(_total)?$/.test(name)) return 's'
  return /_bytes(_total)?$/.test(name) ? 'By' : ''
}

interface Series {
  readonly labels: Samples[number]['labels']
  readonly value: Histogram
}

/** The series of a histogram, of which Prometheus has cumulative buckets, the sum and the count as samples of their own. */
function histogramsIn(samples: Samples): Series[] {
  const all = new Map<string, Series>()
  for (const sample of samples) {
    const { le, ...labels } = sample.labels as Record<string, string | number>
    const series = seriesOf(all, labels)
    const { value } = series
    if (le !== undefined) {
      const { boundaries, counts } = value.buckets
      counts.push(sample.value - counts.reduce((sum, count) => sum + count, 0))
      if (le !== '+Inf') boundaries.push(Number(le))
    } else if ('metricName' in sample && String(sample.metricName).endsWith('_sum')) value.sum = sample.value
    else value.count = sample.value
  }
  return [...all.values()]
}

function seriesOf(all: Map<string, Series>, labels: Series['labels']): Series {
  const key = JSON.stringify(labels)
  const known = all.get(key)
  if (known !== undefined) return known
  const series: Series = { labels, value: { buckets: { boundaries: [], counts: [] }, count: 0, sum: 0 } }
  all.set(key, series)
  return series
}

function hrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1000)
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)]
}
