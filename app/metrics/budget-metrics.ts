// Metrics of the budgets of the process.
import { Counter, Gauge, type Registry } from 'prom-client'
import { processBudgets } from '../budget/budget.js'
import { ownMetrics } from './metric-table.js'

export function registerBudgetMetrics(registry: Registry): void {
  const registers = [registry]
  gauge('svc_budget_limit', registers, (metric) => {
    for (const [budget, { use }] of processBudgets) metric.set({ budget }, use.limit)
  })
  gauge('svc_budget_used', registers, (metric) => {
    for (const [budget, { use }] of processBudgets) {
      metric.set({ budget, tenants: 'largest' }, use.largest)
      metric.set({ budget, tenants: 'others' }, use.used - use.largest)
    }
  })
  gauge('svc_budget_waiting', registers, (metric) => {
    for (const [budget, { use }] of processBudgets) metric.set({ budget }, use.waiting)
  })
  const name = 'svc_budget_shortages_total'
  const { help, labels } = ownMetrics[name]
  const shortages = new Counter({
    name,
    help,
    labelNames: labels,
    registers,
    collect: () => {
      shortages.reset()
      for (const [budget, { shortages: byServer }] of processBudgets)
        for (const [server, count] of byServer) shortages.inc({ budget, server }, count)
    },
  })
}

function gauge(
  name: 'svc_budget_limit' | 'svc_budget_used' | 'svc_budget_waiting',
  registers: Registry[],
  collect: (metric: Gauge<string>) => void,
): void {
  const { help, labels } = ownMetrics[name]
  const metric: Gauge<string> = new Gauge({
    name,
    help,
    labelNames: [...labels],
    registers,
    collect: () => collect(metric),
  })
}
