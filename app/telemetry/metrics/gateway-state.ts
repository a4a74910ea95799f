// Metrics of a gateway as a whole: its calls, budgets and reloads, and whether it is ready.
import type { Clock } from '@svc/core'
import { Counter, type Registry } from 'prom-client'
import { processBudgets } from '../../budget/budget.js'
import { CallMetrics } from './call-metrics.js'
import type { GatewayMetrics } from './gateway-metrics.js'
import { serverMetrics } from './metric-table.js'
import { collectedCounter, collectedGauge, optionsOf } from './own-metric.js'

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
