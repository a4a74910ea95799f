// What the `svc audit` commands do once their arguments are read.

import {
  type LogFilter,
  type LogStats,
  logStats,
  readKeys,
  readLog,
  type SignedEnvelope,
  type VerifyReport,
  verifyLog,
} from '@svc/plugin-audit'
import type { CliIo } from './io.js'
import { printable, table } from './table.js'

/** An option that a later version brings. */
class NotAvailable extends Error {
  constructor(what: string) {
    super(`${what} is not available yet`)
    this.name = 'NotAvailable'
  }
}

export function isNotAvailable(error: unknown): error is Error {
  return error instanceof NotAvailable
}

export interface VerifyArguments {
  keys?: string
  against?: string
  json?: boolean
}

const EXIT = { intact: 0, not_intact: 1, cannot_be_judged: 2 } as const

export async function verify(dir: string, options: VerifyArguments, io: CliIo): Promise<void> {
  if (options.against !== undefined) throw new NotAvailable('--against')
  const keys = options.keys === undefined ? {} : { keys: await readKeys(options.keys) }
  const onFailure = options.json
    ? {}
    : {
        onFailure: ({
          file,
          line,
          kind,
          message,
        }: {
          file: string
          line: number
          kind: string
          message: string
        }) => io.err(`${file}:${line}: ${kind}: ${message}\n`),
      }
  const report = await verifyLog(dir, { ...keys, ...onFailure })
  await io.out(options.json ? `${JSON.stringify(report, null, 2)}\n` : summary(report))
  io.exit(EXIT[report.verdict])
}

function summary(report: VerifyReport): string {
  const lines = report.tornTails.map(
    (tail) => `${tail.file}:${tail.line}: ${tail.kind}: ${tail.message} (no failure)`,
  )
  lines.push(`${report.records} records in ${report.files} files, ${report.verified} verified`)
  const counts = Object.entries(report.failureCounts)
  if (counts.length > 0)
    lines.push(`failures: ${counts.map(([kind, count]) => `${count} ${kind}`).join(', ')}`)
  if (report.selfVouched && report.keys.length > 0) {
    lines.push('judged by the public-keys file in the log itself: the log vouches for itself (give --keys)')
  }
  if (report.verdict === 'intact') lines.push('intact')
  else if (report.verdict === 'not_intact') lines.push('NOT INTACT')
  else lines.push(`cannot be judged: ${report.reason}`)
  return `${lines.join('\n')}\n`
}

export interface ShowOptions extends LogFilter {
  format?: string
}

export async function show(dir: string, options: ShowOptions, io: CliIo): Promise<void> {
  const { format = 'ndjson', ...filter } = options
  if (format === 'ocsf' || format === 'ecs') throw new NotAvailable(`--format ${format}`)
  if (format !== 'ndjson' && format !== 'table') throw new NotAvailable(`--format ${format} (ndjson, table)`)
  const rows: string[][] = [['TIME', 'DECISION', 'STATUS', 'MS', 'TENANT', 'SERVER', 'TOOL', 'WHY', 'TRACE']]
  for await (const record of readLog(dir, filter, badLines(io))) {
    if (format === 'ndjson') await io.out(`${JSON.stringify(record)}\n`)
    else rows.push(row(record))
  }
  if (format === 'table') await io.out(table(rows, [3]))
}

function row(record: SignedEnvelope): string[] {
  const why = [record.error, ...(record.findings ?? []).map((finding) => finding.reason)]
  return [
    record.ts,
    record.policy.decision,
    record.status,
    milliseconds(record.latency_ms),
    record.tenant,
    record.server,
    record.tool,
    why.filter((word) => word !== undefined).join(' '),
    record.trace_id,
  ].map(printable)
}

export async function stats(dir: string, options: LogFilter & { json?: boolean }, io: CliIo): Promise<void> {
  const { json, ...filter } = options
  const figures = await logStats(dir, filter, badLines(io))
  await io.out(json ? `${JSON.stringify(figures, null, 2)}\n` : report(figures))
}

function report(figures: LogStats): string {
  const { calls, allowed, denied, errors } = figures
  const parts = [`${calls} calls: ${allowed} allowed (${errors} of them failed), ${denied} denied\n`]
  const reasons = Object.entries(figures.denialsByReason)
  if (reasons.length > 0) {
    const rows = reasons.map(([reason, count]) => [printable(reason), String(count)])
    parts.push(table([['DENIED FOR', 'CALLS'], ...rows], [1]))
  }
  if (figures.tools.length > 0) {
    const rows = figures.tools.map((tool) => [
      printable(tool.tool),
      ...[tool.calls, tool.denials, tool.errors].map(String),
      ...[tool.p50, tool.p90, tool.p99, tool.max].map(milliseconds),
    ])
    parts.push(
      table(
        [['TOOL', 'CALLS', 'DENIED', 'FAILED', 'P50 MS', 'P90 MS', 'P99 MS', 'MAX MS'], ...rows],
        [1, 2, 3, 4, 5, 6, 7],
      ),
    )
  }
  return parts.join('\n')
}

function badLines(io: CliIo) {
  return {
    onBadLine: ({ file, line }: { file: string; line: number }) =>
      io.err(`${file}:${line}: not a record, left out (svc audit verify says what is wrong)\n`),
  }
}

function milliseconds(ms: number): string {
  return ms >= 100 ? ms.toFixed(0) : ms.toFixed(ms >= 10 ? 1 : 2)
}
