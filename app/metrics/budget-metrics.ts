// Metrics of the budgets of the process.
import type { Registry } from 'prom-client'
import { processBudgets } from '../budget/budget.js'
import { collectedCounter, collectedGauge } from './own-metric.js'

export function registerBudgetMetrics(registry: Registry): void {
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
