// What the gateway counts, as Prometheus reads it: the metrics of stages, of calls, and of the process.
import { type Logger, type Meter, type MetricEntry, type Token, token } from '@svc/core'
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import { ownMetrics } from './metric-table.js'

/** Names beyond ours: stages of one's own may bring some, and none may bring one for every caller. */
const maxNames = 200
const metricName = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/

export class GatewayMetrics implements Meter {
  readonly registry = new Registry()
  #counters = new Map<string, Counter>()
  #gauges = new Map<string, Gauge>()
  #refused = new Set<string>()
  #more: (() => string)[] = []
  #logger: Logger

  constructor(logger: Logger) {
    this.#logger = logger
    processMetrics()
  }

  /** Shows, at 0, what the stages of a policy count; what another has named is left as it is. */
  declare(metrics: Readonly<Record<string, MetricEntry>>): void {
    for (const [name, { kind, help }] of Object.entries(metrics)) {
      if (this.#fits(name)) this.#register(name, kind, help)
    }
  }

  /** Nothing here throws: a stage that counts must not fail by it. */
  count(name: string, by = 1): void {
    const counter = this.#counters.get(name) ?? this.#made(name, 'counter', this.#counters)
    if (by >= 0 && Number.isFinite(by)) counter?.inc(by)
  }

  gauge(name: string, value: number): void {
    const gauge = this.#gauges.get(name) ?? this.#made(name, 'gauge', this.#gauges)
    gauge?.set(value)
  }

  /** Adds families that are no part of the registry, in the text format. */
  add(text: () => string): void {
    this.#more.push(text)
  }

  /** In the text format (version 0.0.4). */
  async text(): Promise<string> {
    const registered = [await this.registry.metrics(), await processMetrics().metrics()]
    return [...registered, ...this.#more.map((text) => text())].join('\n')
  }

  get contentType(): string {
    return this.registry.contentType
  }

  #made<T>(name: string, kind: 'counter' | 'gauge', made: ReadonlyMap<string, T>): T | undefined {
    if (this.#refused.has(name)) return undefined
    if (this.#fits(name)) {
      this.#register(name, kind, 'Of a stage of your own.')
      return made.get(name)
    }
    if (this.#refused.size < maxNames) {
      this.#refused.add(name)
      this.#logger.warn(
        { metric: name.slice(0, 100) },
        'a metric is not shown: its name is unfit, taken or one too many',
      )
    }
    return undefined
  }

  #fits(name: string): boolean {
    const isTaken =
      Object.hasOwn(ownMetrics, name) ||
      [this.registry, processMetrics()].some((registry) => registry.getSingleMetric(name) !== undefined)
    return metricName.test(name) && !isTaken && this.#counters.size + this.#gauges.size < maxNames
  }

  #register(name: string, kind: 'counter' | 'gauge', help: string): void {
    const options = { name, help, registers: [this.registry] }
    if (kind === 'counter') this.#counters.set(name, new Counter(options))
    else this.#gauges.set(name, new Gauge(options))
  }
}

let ofProcess: Registry | undefined

/** One for all gateways of the process: what observes it is never taken back. */
function processMetrics(): Registry {
  if (ofProcess === undefined) {
    ofProcess = new Registry()
    collectDefaultMetrics({ register: ofProcess })
  }
  return ofProcess
}

/** Bound where the policy has an admin listener to show them. */
export const gatewayMetrics: Token<GatewayMetrics> = token('GatewayMetrics')
