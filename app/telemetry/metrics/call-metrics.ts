// Metrics of calls: count by outcome, duration, calls in flight. They are plain numbers until Prometheus scrapes them,
// as this code runs for every call.
import type { Call, Clock } from '@svc/core'
import type { Registry } from 'prom-client'
import { DurationHistogram, type Durations } from './duration-histogram.js'
import { ownMetrics } from './metric-table.js'
import { collectedCounter, collectedGauge } from './own-metric.js'

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

export interface Servers {
  has(server: string): boolean
}

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
