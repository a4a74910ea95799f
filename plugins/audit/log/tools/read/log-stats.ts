// Statistics of a log in constant memory: calls, denials by reason, latency percentiles per tool.

import type { LogFilter } from './filter.js'
import { LatencyHistogram, Timeline, type TimelineBucket } from './histograms.js'
import { isGatewayEvent, isOfPeople, refusalReasons } from './outcome.js'
import { type ReadOptions, readLog } from './read-log.js'

export interface ToolStats {
  /** `<server>/<tool>`, each with its version. */
  readonly tool: string
  readonly calls: number
  readonly denials: number
  readonly errors: number
  /** Milliseconds, within 1 %, of the calls about which nobody was asked. */
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

interface Tally {
  calls: number
  denials: number
  errors: number
  latency: LatencyHistogram
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
    if (!isOfPeople(record)) tally.latency.add(record.latency_ms)
    if (record.policy.decision === 'deny') {
      total.denied++
      tally.denials++
      for (const reason of refusalReasons(record)) reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
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
