// `svc audit stats`: statistics as JSON, or as tables and a bar chart.

import { visibleInLine } from '@svc/core/json'
import {
  type LogFilter,
  type LogStats,
  logStats,
  type TimelineBucket,
  type ToolStats,
} from '@svc/plugin-audit/tools'
import { badLines } from './audit-show.js'
import type { CliIo } from './io.js'
import { formatMilliseconds, table } from './table.js'

export async function stats(dir: string, options: LogFilter & { json?: boolean }, io: CliIo): Promise<void> {
  const { json, ...filter } = options
  const metrics = await logStats(dir, filter, badLines(io))
  await io.out(json ? `${JSON.stringify(metrics, null, 2)}\n` : statsReport(metrics))
}

const steps = '\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588'
const BAR_CELLS = 24

function statsReport(stats: LogStats): string {
  const { calls, allowed, denied, errors } = stats
  const parts = [`${calls} calls: ${allowed} allowed (${errors} of them failed), ${denied} denied\n`]
  if (stats.timeline.length > 1) parts.push(timeline(stats.timeline))
  const reasons = Object.entries(stats.denialsByReason)
  if (reasons.length > 0) {
    const rows = reasons.map(([reason, count]) => [visibleInLine(reason), String(count)])
    parts.push(table([['DENIED FOR', 'CALLS'], ...rows], [1]))
  }
  if (stats.tools.length > 0) parts.push(tools(stats.tools))
  return parts.join('\n')
}

function tools(tools: readonly ToolStats[]): string {
  const slowest = Math.max(...tools.map(({ p99 }) => p99))
  const rows = tools.map((tool) => [
    visibleInLine(tool.tool),
    ...[tool.calls, tool.denials, tool.errors].map(String),
    ...[tool.p50, tool.p90, tool.p99, tool.max].map(formatMilliseconds),
    bar(tool, slowest),
  ])
  const headings = ['TOOL', 'CALLS', 'DENIED', 'FAILED', 'P50 MS', 'P90 MS', 'P99 MS', 'MAX MS']
  return table([[...headings, 'P50 \u2588 P90 \u2593 P99 \u2591'], ...rows], [1, 2, 3, 4, 5, 6, 7])
}

/** A bar that is solid up to the median, and lighter up to the 90th and the 99th percentile. */
function bar({ p50, p90, p99 }: ToolStats, slowest: number): string {
  const cells = (ms: number): number => (slowest === 0 ? 0 : Math.round((ms / slowest) * BAR_CELLS))
  return '\u2588'.repeat(cells(p50)).padEnd(cells(p90), '\u2593').padEnd(cells(p99), '\u2591')
}

function timeline(parts: readonly TimelineBucket[]): string {
  const max = Math.max(...parts.map(({ allowed, denied }) => Math.max(allowed, denied)))
  const line = (count: (part: TimelineBucket) => number): string =>
    parts.map((part) => level(count(part), max)).join('')
  return (
    `allowed  ${line(({ allowed }) => allowed)}\n` +
    `denied   ${line(({ denied }) => denied)}\n` +
    `         from ${parts[0]?.from} to ${parts.at(-1)?.from}, up to ${max} calls a mark\n`
  )
}

function level(count: number, max: number): string {
  if (count === 0) return ' '
  return steps.charAt(Math.ceil((count / max) * steps.length) - 1)
}
