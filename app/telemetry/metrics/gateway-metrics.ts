// All metrics: of stages, of calls, and of the process; as values, and in the Prometheus text format.
import { type Logger, type Meter, type MetricEntry, type Token, token } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import { DurationHistogram } from './duration-histogram.js'
import { ownMetrics } from './metric-table.js'
import { StageMetrics } from './stage-metrics.js'

/** Limit on the names of custom stages, so that none can add a metric for each caller. */
const maxNames = 200
const metricName = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/

export type MetricFamily = Awaited<ReturnType<Registry['getMetricsAsJSON']>>[number]

export class GatewayMetrics implements Meter {
  readonly registry = new Registry()
  readonly stages = new StageMetrics(this.registry)
  #counters = new Map<string, Counter>()
  #gauges = new Map<string, Gauge>()
  #histograms = new Map<string, DurationHistogram>()
  /** The last one of a name is in use. */
  #watches = new Map<string, (() => number | undefined)[]>()
  #emptyAtFirst = new Set<string>()
  #refused = new Set<string>()
  #logger: Logger

  constructor(logger: Logger) {
    this.#logger = logger
    processMetrics()
  }

  /** Registers the metrics of a policy's stages with the value 0; a registered name stays as it is. */
  declare(metrics: Readonly<Record<string, MetricEntry>>): void {
    for (const [name, { kind, help, isEmptyAtFirst }] of Object.entries(metrics)) {
      if (this.#isAvailable(name)) this.#register(name, kind, help, isEmptyAtFirst)
    }
  }

  /** Never throws: a metric must not make a stage fail. */
  count(name: string, by = 1): void {
    const counter = this.#counters.get(name) ?? this.#registerOnFirstUse(name, 'counter', this.#counters)
    if (by >= 0 && Number.isFinite(by)) counter?.inc(by)
  }

  gauge(name: string, value: number): void {
    const gauge = this.#gauges.get(name) ?? this.#registerOnFirstUse(name, 'gauge', this.#gauges)
    gauge?.set(value)
  }

  watch(name: string, read: () => number | undefined): () => void {
    const gauge = this.#gauges.get(name) ?? this.#registerOnFirstUse(name, 'gauge', this.#gauges)
    if (gauge === undefined) return () => undefined
    const watches = this.#watches.get(name) ?? []
    this.#watches.set(name, watches)
    watches.push(read)
    return () => this.#unwatch(name, read)
  }

  observe(name: string, seconds: number): void {
    const histogram =
      this.#histograms.get(name) ?? this.#registerOnFirstUse(name, 'histogram', this.#histograms)
    if (seconds >= 0) histogram?.of().add(seconds)
  }

  /** The metrics in the text format (version 0.0.4). */
  async text(): Promise<string> {
    return (await Promise.all(this.#registries.map((registry) => registry.metrics()))).join('\n')
  }

  /** The same metrics as values. */
  async families(): Promise<readonly MetricFamily[]> {
    return (await Promise.all(this.#registries.map((registry) => registry.getMetricsAsJSON()))).flat()
  }

  get #registries(): readonly Registry[] {
    return [this.registry, processMetrics()]
  }

  get contentType(): string {
    return this.registry.contentType
  }

  #registerOnFirstUse<T>(
    name: string,
    kind: MetricEntry['kind'],
    metrics: ReadonlyMap<string, T>,
  ): T | undefined {
    if (this.#refused.has(name)) return undefined
    if (this.#isAvailable(name)) {
      this.#register(name, kind, 'Metric of a custom stage.')
      return metrics.get(name)
    }
    if (this.#refused.size < maxNames) {
      this.#refused.add(name)
      this.#logger.warn(
        { metric: name.slice(0, 100) },
        'a metric is not shown: its name is not valid, already in use, or beyond the limit',
      )
    }
    return undefined
  }

  #isAvailable(name: string): boolean {
    const isInUse =
      Object.hasOwn(ownMetrics, name) ||
      this.#registries.some((registry) => registry.getSingleMetric(name) !== undefined)
    return metricName.test(name) && !isInUse && this.#size < maxNames
  }

  get #size(): number {
    return this.#counters.size + this.#gauges.size + this.#histograms.size
  }

  #register(name: string, kind: MetricEntry['kind'], help: string, isEmptyAtFirst = false): void {
    const options = { name, help, registers: [this.registry] }
    if (kind === 'counter') this.#counters.set(name, new Counter(options))
    else if (kind === 'histogram') {
      const histogram = new DurationHistogram(name, { help }, this.registry)
      histogram.of()
      this.#histograms.set(name, histogram)
    } else {
      const gauge = new Gauge({ ...options, collect: () => this.#read(name) })
      if (isEmptyAtFirst) this.#emptyAtFirst.add(name)
      this.#gauges.set(name, gauge)
      this.#set(name, undefined)
    }
  }

  #read(name: string): void {
    const read = this.#watches.get(name)?.at(-1)
    if (read === undefined) return
    try {
      this.#set(name, read())
    } catch (error) {
      this.#unwatch(name, read)
      this.#logger.warn({ metric: name, reason: messageOf(error) }, 'a metric is not read any more')
    }
  }

  #unwatch(name: string, read: () => number | undefined): void {
    const watches = this.#watches.get(name) ?? []
    const index = watches.indexOf(read)
    if (index !== -1) watches.splice(index, 1)
    this.#set(name, undefined)
  }

  /** Undefined sets what the gauge has at first. */
  #set(name: string, value: number | undefined): void {
    const gauge = this.#gauges.get(name)
    if (value === undefined && this.#emptyAtFirst.has(name)) gauge?.remove()
    else gauge?.set(value ?? 0)
  }
}

let ofProcess: Registry | undefined

/** One registry for all gateways of the process, as prom-client's process collectors cannot be removed. */
function processMetrics(): Registry {
  if (ofProcess === undefined) {
    ofProcess = new Registry()
    collectDefaultMetrics({ register: ofProcess })
  }
  return ofProcess
}

/** Bound if Prometheus or OpenTelemetry gets the metrics. */
export const gatewayMetrics: Token<GatewayMetrics> = token('GatewayMetrics')
