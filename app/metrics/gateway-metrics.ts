// All metrics in the Prometheus text format: of stages, of calls, and of the process.
import { type Logger, type Meter, type MetricEntry, type Token, token } from '@svc/core'
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import { ownMetrics } from './metric-table.js'

/** Limit on the names of custom stages, so that none can add a metric for each caller. */
const maxNames = 200
const metricName = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/

export class GatewayMetrics implements Meter {
  readonly registry = new Registry()
  #counters = new Map<string, Counter>()
  #gauges = new Map<string, Gauge>()
  #refused = new Set<string>()
  #sources: (() => string)[] = []
  #logger: Logger

  constructor(logger: Logger) {
    this.#logger = logger
    processMetrics()
  }

  /** Registers the metrics of a policy's stages with the value 0; a registered name stays as it is. */
  declare(metrics: Readonly<Record<string, MetricEntry>>): void {
    for (const [name, { kind, help }] of Object.entries(metrics)) {
      if (this.#isAvailable(name)) this.#register(name, kind, help)
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

  /** Adds families that are not in the registry, in the text format. */
  add(text: () => string): void {
    this.#sources.push(text)
  }

  /** The metrics in the text format (version 0.0.4). */
  async text(): Promise<string> {
    const registered = [await this.registry.metrics(), await processMetrics().metrics()]
    return [...registered, ...this.#sources.map((text) => text())].join('\n')
  }

  get contentType(): string {
    return this.registry.contentType
  }

  #registerOnFirstUse<T>(
    name: string,
    kind: 'counter' | 'gauge',
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
      [this.registry, processMetrics()].some((registry) => registry.getSingleMetric(name) !== undefined)
    return metricName.test(name) && !isInUse && this.#counters.size + this.#gauges.size < maxNames
  }

  #register(name: string, kind: 'counter' | 'gauge', help: string): void {
    const options = { name, help, registers: [this.registry] }
    if (kind === 'counter') this.#counters.set(name, new Counter(options))
    else this.#gauges.set(name, new Gauge(options))
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

/** Bound if the policy has an admin section. */
export const gatewayMetrics: Token<GatewayMetrics> = token('GatewayMetrics')
