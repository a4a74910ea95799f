// Metrics of calls: count by outcome, duration, calls in flight. They are plain numbers until Prometheus scrapes them,
// as this code runs for every call.
import type { Call, Clock, Settlement } from '@svc/core'
import { Counter, Gauge, type Registry } from 'prom-client'
import { ownMetrics } from './metric-table.js'

const DURATION = 'svc_call_duration_seconds'

/** The label of servers that are not targets: text of callers must not become a label. */
const UNKNOWN = 'unknown'
/** The code of a call without an error. */
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
  #inFlight = 0

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
    const inFlight = new Gauge({
      name: 'svc_calls_in_flight',
      help: ownMetrics.svc_calls_in_flight.help,
      registers,
      collect: () => {
        inFlight.set(this.#inFlight)
      },
    })
  }

  /** `servers` are the policy's targets; `isListening` is true for a call that ends only when its caller ends it. */
  begin(call: Call, servers: Servers, isListening: (call: Call) => boolean): void {
    const began = this.#clock.monotonic()
    this.#inFlight++
    call.onSettle((settlement) => {
      const metrics = this.#of(servers.has(call.target.server) ? call.target.server : UNKNOWN)
      const outcomes = metrics.outcomes[decisionOf(call, settlement)]
      const code = settlement.error ?? OK
      outcomes.set(code, (outcomes.get(code) ?? 0) + 1)
      if (!isListening(call)) metrics.durations.add((this.#clock.monotonic() - began) / 1000)
    })
  }

  /** To be called once for each `begin`. */
  end(): void {
    this.#inFlight--
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

/** The decision in the record of the call. */
function decisionOf(call: Call, { outcome }: Settlement): Decision {
  if (outcome.kind === 'denied') return 'deny'
  return call.judgedFindings().some(({ effect }) => effect === 'deny') ? 'deny' : 'allow'
}

/** Upper bounds of the buckets, in seconds. */
const bounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

/**
 * A Prometheus histogram of the durations of one server's calls. That of prom-client looks up its labels by a hash for
 * each call, which costs several times as much.
 */
class DurationHistogram {
  /** The last bucket is for values above every bound. */
  #counts = new Array<number>(bounds.length + 1).fill(0)
  #sum = 0

  add(seconds: number): void {
    let bucket = 0
    while (seconds > (bounds[bucket] ?? Number.POSITIVE_INFINITY)) bucket++
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1
    this.#sum += seconds
  }

  /** The samples of one server in the text format (version 0.0.4): buckets are cumulative. */
  samples(name: string, server: string): string {
    const labels = `server="${escapeLabel(server)}"`
    let count = 0
    const buckets = this.#counts.map((more, bucket) => {
      count += more
      return `${name}_bucket{le="${bounds[bucket] ?? '+Inf'}",${labels}} ${count}\n`
    })
    return `${buckets.join('')}${name}_sum{${labels}} ${this.#sum}\n${name}_count{${labels}} ${count}\n`
  }
}

function escapeLabel(label: string): string {
  return label.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}
