// What becomes of calls, in metrics: how many by outcome, how long they took, how many are under way. All are plain
// numbers and become Prometheus's when it asks, as every call passes here.
import { type Call, type Clock, type Settlement, verdict } from '@svc/core'
import { Counter, Gauge, type Registry } from 'prom-client'
import { DurationHistogram } from './duration-histogram.js'
import { ownMetrics } from './metric-table.js'

const DURATION = 'svc_call_duration_seconds'

/** For servers that no target names: what callers write must not become labels. */
const UNKNOWN = 'unknown'
/** The code of a call that has none. */
const OK = 'OK'

type Decision = 'allow' | 'deny'

interface ServerMetrics {
  readonly durations: DurationHistogram
  readonly outcomes: Record<Decision, Map<string, number>>
}

export interface Servers {
  has(server: string): boolean
}

export class CallMetrics {
  #clock: Clock
  #servers = new Map<string, ServerMetrics>()
  #underWay = 0

  constructor(registry: Registry, clock: Clock) {
    this.#clock = clock
    const registers = [registry]
    const calls = new Counter({
      name: 'svc_calls_total',
      help: ownMetrics.svc_calls_total.help,
      labelNames: ownMetrics.svc_calls_total.labels,
      registers,
      collect: () => {
        calls.reset()
        for (const [server, { outcomes }] of this.#servers) {
          for (const decision of ['allow', 'deny'] as const) {
            for (const [code, count] of outcomes[decision]) calls.inc({ server, decision, code }, count)
          }
        }
      },
    })
    const underWay = new Gauge({
      name: 'svc_calls_in_flight',
      help: ownMetrics.svc_calls_in_flight.help,
      registers,
      collect: () => {
        underWay.set(this.#underWay)
      },
    })
  }

  /** `servers` are those that the policy names; `isListening` tells a call that ends when its caller wishes. */
  begin(call: Call, servers: Servers, isListening: (call: Call) => boolean): void {
    const began = this.#clock.monotonic()
    this.#underWay++
    call.onSettle((settlement) => {
      const metrics = this.#of(servers.has(call.target.server) ? call.target.server : UNKNOWN)
      const outcomes = metrics.outcomes[decisionOf(call, settlement)]
      const code = settlement.error ?? OK
      outcomes.set(code, (outcomes.get(code) ?? 0) + 1)
      if (!isListening(call)) metrics.durations.add((this.#clock.monotonic() - began) / 1000)
    })
  }

  /** Once for each `begin`. */
  end(): void {
    this.#underWay--
  }

  /** The durations in the text format; the rest is in the registry. */
  text(): string {
    const servers = [...this.#servers].map(([server, { durations }]) => durations.samples(DURATION, server))
    return `# HELP ${DURATION} ${ownMetrics[DURATION].help}\n# TYPE ${DURATION} histogram\n${servers.join('')}`
  }

  #of(server: string): ServerMetrics {
    let metrics = this.#servers.get(server)
    if (metrics === undefined) {
      metrics = { durations: new DurationHistogram(), outcomes: { allow: new Map(), deny: new Map() } }
      this.#servers.set(server, metrics)
    }
    return metrics
  }
}

/** As the record of the call has it. */
function decisionOf(call: Call, { outcome }: Settlement): Decision {
  if (outcome.kind === 'denied') return 'deny'
  return call.findings.some(({ reason }) => call.get(verdict)?.effectOf(reason) === 'deny') ? 'deny' : 'allow'
}
