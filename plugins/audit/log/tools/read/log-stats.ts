// Statistics of a log in constant memory: calls, denials by reason, latency percentiles per tool.

import type { SignedEnvelope } from '../../format/envelope.js'
import type { LogFilter } from './filter.js'
import { type ReadOptions, readLog } from './read-log.js'
import { Timeline, type TimelineBucket } from './timeline.js'

export interface ToolStats {
  /** `<server>/<tool>`, each with its version. */
  readonly tool: string
  readonly calls: number
  readonly denials: number
  readonly errors: number
  /** Milliseconds, within 1 %. */
  readonly p50: number
  readonly p90: number
  readonly p99: number
  readonly max: number
}

export interface LogStats {
  readonly calls: number
  readonly allowed: number
  readonly denied: number
  readonly errors: number
  /** Denials by reason token, or by error code if no finding denied; one record can count for several. */
  readonly denialsByReason: Readonly<Record<string, number>>
  /** Tools in descending order of calls. */
  readonly tools: readonly ToolStats[]
  /** The time from the first record to the last, in buckets of equal length. */
  readonly timeline: readonly TimelineBucket[]
}

/** A histogram whose buckets span 2 % each, so that percentiles are within 1 %. */
class LatencyHistogram {
  readonly #buckets = new Map<number, number>()
  #count = 0
  max = 0

  add(ms: number): void {
    const bucket = ms <= 0 ? Number.NEGATIVE_INFINITY : Math.floor(Math.log(ms) / LatencyHistogram.#step)
    this.#buckets.set(bucket, (this.#buckets.get(bucket) ?? 0) + 1)
    this.#count++
    if (ms > this.max) this.max = ms
  }

  percentile(share: number): number {
    let rest = Math.ceil(this.#count * share)
    for (const [bucket, count] of [...this.#buckets].sort(([a], [b]) => a - b)) {
      rest -= count
      // The middle of the bucket, on the logarithmic scale.
      if (rest <= 0) return Math.min(this.max, Math.exp((bucket + 0.5) * LatencyHistogram.#step))
    }
    return 0
  }

  static readonly #step = Math.log(1.02)
}

interface Tally {
  calls: number
  denials: number
  errors: number
  latency: LatencyHistogram
}

/** Whether the record is an event of the gateway, such as a vote on an escalation, and not a call. */
function isGatewayEvent({ server, gateway, tool }: SignedEnvelope): boolean {
  return server === gateway && tool.includes('/')
}

/** @throws {AuditError} as `readLog`. */
export async function logStats(
  dir: string,
  filter: LogFilter = {},
  options: ReadOptions = {},
): Promise<LogStats> {
  const tools = new Map<string, Tally>()
  const reasons = new Map<string, number>()
  const total = { calls: 0, denied: 0, errors: 0 }
  const timeline = new Timeline()
  for await (const record of readLog(dir, filter, options)) {
    if (isGatewayEvent(record)) continue
    const name = `${record.server}/${record.tool}`
    const tally = tools.get(name) ?? { calls: 0, denials: 0, errors: 0, latency: new LatencyHistogram() }
    tools.set(name, tally)
    total.calls++
    timeline.add(Date.parse(record.ts), record.policy.decision === 'deny')
    tally.calls++
    tally.latency.add(record.latency_ms)
    if (record.policy.decision === 'deny') {
      total.denied++
      tally.denials++
      const denying = (record.findings ?? []).filter(
        ({ effect }) => effect === 'deny' || effect === 'escalate',
      )
      const names =
        denying.length > 0 ? denying.map((finding) => finding.reason) : [record.error ?? 'unstated']
      for (const reason of new Set(names)) reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
    } else if (record.status === 'error') {
      total.errors++
      tally.errors++
    }
  }
  return {
    ...total,
    allowed: total.calls - total.denied,
    timeline: timeline.buckets(),
    denialsByReason: Object.fromEntries([...reasons].sort(([, a], [, b]) => b - a)),
    tools: [...tools]
      .map(([tool, { latency, ...counts }]) => ({
        tool,
        ...counts,
        p50: latency.percentile(0.5),
        p90: latency.percentile(0.9),
        p99: latency.percentile(0.99),
        max: latency.max,
      }))
      .sort((a, b) => b.calls - a.calls || (a.tool < b.tool ? -1 : 1)),
  }
}
