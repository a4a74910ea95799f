// Metrics of a gateway as a whole: its calls, budgets and reloads, and whether it is ready.
import type { Clock } from '@svc/core'
import { Counter, Gauge } from 'prom-client'
import { registerBudgetMetrics } from './budget-metrics.js'
import { CallMetrics } from './call-metrics.js'
import type { GatewayMetrics } from './gateway-metrics.js'
import { ownMetrics, serverMetrics } from './metric-table.js'

export class GatewayState {
  /** Metrics of the calls of every policy of the gateway. */
  readonly calls: CallMetrics
  #reloads: Counter<'result'>

  /** To be created once per container: it registers the gateway's metrics. */
  constructor(metrics: GatewayMetrics, clock: Clock, isReady: () => boolean) {
    const { registry } = metrics
    const registers = [registry]
    metrics.declare(serverMetrics)
    this.calls = new CallMetrics(registry, clock)
    registerBudgetMetrics(registry)
    this.#reloads = new Counter({
      name: 'svc_policy_reloads_total',
      help: ownMetrics.svc_policy_reloads_total.help,
      labelNames: ownMetrics.svc_policy_reloads_total.labels,
      registers,
    })
    for (const result of ['success', 'refused']) this.#reloads.inc({ result }, 0)
    const ready = new Gauge({
      name: 'svc_ready',
      help: ownMetrics.svc_ready.help,
      registers,
      collect: () => {
        ready.set(isReady() ? 1 : 0)
      },
    })
  }

  countReload(result: 'success' | 'refused'): void {
    this.#reloads.inc({ result })
  }
}
