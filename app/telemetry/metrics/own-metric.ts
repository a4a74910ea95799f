// Metrics of the gateway itself, as the table of them describes them. Prometheus has their values collected at each scrape.
import { Counter, Gauge, type Registry } from 'prom-client'
import { ownMetrics } from './metric-table.js'

type OwnName = keyof typeof ownMetrics

/** `collect` adds up the counter anew. */
export function collectedCounter(
  name: OwnName,
  registry: Registry,
  collect: (counter: Counter) => void,
): void {
  const counter: Counter = new Counter({
    ...optionsOf(name, registry),
    collect: () => {
      counter.reset()
      collect(counter)
    },
  })
}

export function collectedGauge(name: OwnName, registry: Registry, collect: (gauge: Gauge) => void): void {
  const gauge: Gauge = new Gauge({ ...optionsOf(name, registry), collect: () => collect(gauge) })
}

export function optionsOf(name: OwnName, registry: Registry) {
  const { help, labels = [] }: { readonly help: string; readonly labels?: readonly string[] } =
    ownMetrics[name]
  return { name, help, labelNames: [...labels], registers: [registry] }
}
