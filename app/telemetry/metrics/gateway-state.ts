// Metrics of a gateway as a whole: its calls, budgets and reloads, and whether it is ready.
import type { Call, Clock } from '@svc/core'
import { Counter, type Registry } from 'prom-client'
import { processBudgets } from '../../budget/budget.js'
import { DurationHistogram, type Durations } from './duration-histogram.js'
import type { GatewayMetrics } from './gateway-metrics.js'
import { ownMetrics, serverMetrics } from './metric-table.js'
import { collectedCounter, collectedGauge, optionsOf } from './own-metric.js'

/** The label of servers that are not targets: text of callers must not become a label. */
const UNKNOWN = 'unknown'
/** The label of targets beyond the limit: each reload may bring new ones. */
const OTHER = 'other'
const maxServers = 1_000
/** The code of a call without an error. */
const OK = 'OK'

type Decision = 'allow' | 'deny'

interface ServerMetrics {
  readonly durations: Durations
  readonly outcomes: Record<Decision, Map<string, number>>
}

interface Servers {
  has(server: string): boolean
}

/** They are plain numbers until Prometheus scrapes them, as this code runs for every call. */
export class CallMetrics {
  #clock: Clock
  #servers = new Map<string, ServerMetrics>()
  #durations: DurationHistogram
  #inFlight = 0

  constructor(registry: Registry, clock: Clock) {
    this.#clock = clock
    collectedCounter('svc_calls_total', registry, (calls) => {
      for (const [server, { outcomes }] of this.#servers) {
        for (const decision of ['allow', 'deny'] as const) {
          for (const [code, count] of outcomes[decision]) calls.inc({ server, decision, code }, count)
        }
      }
    })
    const duration = 'svc_call_duration_seconds'
    this.#durations = new DurationHistogram(duration, ownMetrics[duration], registry)
    collectedGauge('svc_calls_in_flight', registry, (calls) => calls.set(this.#inFlight))
  }

  /** `servers` are the policy's targets; `isListening` is true for a call that ends only when its caller ends it. */
  begin(call: Call, servers: Servers, isListening: (call: Call) => boolean): void {
    const began = this.#clock.monotonic()
    this.#inFlight++
    call.onSettle((settlement) => {
      const metrics = this.#of(servers.has(call.target.server) ? call.target.server : UNKNOWN)
      const outcomes = metrics.outcomes[call.decisionFor(settlement.outcome)]
      const code = settlement.error ?? OK
      outcomes.set(code, (outcomes.get(code) ?? 0) + 1)
      if (!isListening(call)) metrics.durations.add((this.#clock.monotonic() - began) / 1000)
    })
  }

  /** To be called once for each `begin`. */
  end(): void {
    this.#inFlight--
  }

  #of(server: string): ServerMetrics {
    const known = this.#servers.get(server)
    if (known !== undefined) return known
    if (this.#servers.size >= maxServers && server !== OTHER) return this.#of(OTHER)
    const metrics = { durations: this.#durations.of(server), outcomes: { allow: new Map(), deny: new Map() } }
    this.#servers.set(server, metrics)
    return metrics
  }
}

export class GatewayState {
  /** Metrics of the calls of every policy of the gateway. */
  readonly calls: CallMetrics
  #reloads: Counter

  /** To be created once per container: it registers the gateway's metrics. */
  constructor(metrics: GatewayMetrics, clock: Clock, isReady: () => boolean) {
    const { registry } = metrics
    metrics.declare(serverMetrics)
    this.calls = new CallMetrics(registry, clock)
    registerBudgetMetrics(registry)
    this.#reloads = new Counter(optionsOf('svc_policy_reloads_total', registry))
    for (const result of ['success', 'refused']) this.#reloads.inc({ result }, 0)
    collectedGauge('svc_ready', registry, (ready) => ready.set(isReady() ? 1 : 0))
  }

  countReload(result: 'success' | 'refused'): void {
    this.#reloads.inc({ result })
  }
}

/** Metrics of the budgets of the process. */
function registerBudgetMetrics(registry: Registry): void {
  collectedGauge('svc_budget_limit', registry, (metric) => {
    for (const [budget, { use }] of processBudgets) metric.set({ budget }, use.limit)
  })
  collectedGauge('svc_budget_used', registry, (metric) => {
    for (const [budget, { use }] of processBudgets) {
      metric.set({ budget, tenants: 'largest' }, use.largest)
      metric.set({ budget, tenants: 'others' }, use.used - use.largest)
    }
  })
  collectedGauge('svc_budget_waiting', registry, (metric) => {
    for (const [budget, { use }] of processBudgets) metric.set({ budget }, use.waiting)
  })
  collectedCounter('svc_budget_shortages_total', registry, (metric) => {
    for (const [budget, { shortages }] of processBudgets)
      for (const [server, count] of shortages) metric.inc({ budget, server }, count)
  })
}
