// The actions of the `svc audit` commands.

import {
  type LogFilter,
  logStats,
  readKeys,
  type VerifyFailure,
  type VerifyProgress,
  type VerifyReport,
  verifyLog,
} from '@svc/plugin-audit/log'
import { badLines } from './audit-show.js'
import { statsReport } from './audit-stats.js'
import type { CliIo } from './io.js'
import { printable } from './table.js'

export interface VerifyArguments {
  keys?: string
  against?: string
  fast?: boolean
  json?: boolean
}

const EXIT = { intact: 0, not_intact: 1, cannot_be_judged: 2 } as const

export async function verify(dir: string, options: VerifyArguments, io: CliIo): Promise<void> {
  const { against, fast = false } = options
  const bar = options.json ? undefined : progressBar(io)
  const report = await verifyLog(dir, {
    fast,
    ...(options.keys === undefined ? {} : { keys: await readKeys(options.keys) }),
    ...(against === undefined ? {} : { against }),
    ...(options.json
      ? {}
      : { onFailure: (failure: VerifyFailure) => io.err(`${bar?.clear() ?? ''}${line(failure)}`) }),
    ...(bar === undefined ? {} : { onProgress: bar.show }),
  })
  if (bar !== undefined) io.err(bar.clear())
  await io.out(options.json ? `${JSON.stringify(report, null, 2)}\n` : summary(report, fast))
  io.exit(EXIT[report.verdict])
}

function line({ file, line, kind, message }: VerifyFailure): string {
  return `${printable(file)}:${line}: ${kind}: ${message}\n`
}

function summary(report: VerifyReport, fast: boolean): string {
  const lines = report.tornTails.map(
    (tail) => `${tail.file}:${tail.line}: ${tail.kind}: ${tail.message} (no failure)`,
  )
  const verified = fast ? 'signatures not checked (--fast)' : `${report.verified} verified`
  lines.push(`${report.records} records in ${report.files} files, ${verified}`)
  lines.push(seals(report))
  if (report.removedDays.length > 0) {
    const [first, last] = [report.removedDays[0], report.removedDays.at(-1)]
    lines.push(
      `${report.removedDays.length} days removed by retention, by its signed statement (${first} to ${last})`,
    )
  }
  const tampering = counted(report.tampering)
  if (tampering !== '') lines.push(`against what was sealed: ${tampering}`)
  const failures = counted(report.failureCounts)
  if (failures !== '') lines.push(`failures: ${failures}`)
  if (report.selfVouched && report.keys.length > 0) {
    lines.push('judged by the public-keys file in the log itself: the log vouches for itself (give --keys)')
  }
  if (report.verdict === 'intact') lines.push(isUnsealed(report) ? unsealedVerdict : 'intact')
  else if (report.verdict === 'not_intact') lines.push('NOT INTACT')
  else lines.push(`cannot be judged: ${report.reason}`)
  return `${lines.join('\n')}\n`
}

const unsealedVerdict =
  'every record that is present is intact; missing records cannot be detected without checkpoints'

function isUnsealed({ checkpoints, sealed }: VerifyReport): boolean {
  return checkpoints === 0 && sealed === 0
}

function seals(report: VerifyReport): string {
  if (isUnsealed(report)) return 'no checkpoints'
  const { checkpoints, sealed, unsealed } = report
  return `${sealed} records sealed by ${checkpoints} checkpoints, ${unsealed} not sealed yet`
}

function counted(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .map(([kind, count]) => `${count} ${kind}`)
    .join(', ')
}

const BAR_CELLS = 30
const BAR_EVERY_MS = 100

/** Shows how far verification is, on a terminal only. */
function progressBar(io: CliIo) {
  const { progress } = io
  if (progress === undefined) return undefined
  const began = performance.now()
  let shown = began
  return {
    show({ bytes, totalBytes }: VerifyProgress): void {
      const now = performance.now()
      if (now - shown < BAR_EVERY_MS) return
      shown = now
      const share = totalBytes === 0 ? 1 : bytes / totalBytes
      const bar = '\u2588'.repeat(Math.round(share * BAR_CELLS)).padEnd(BAR_CELLS, '\u2591')
      const rate = bytes / 1e3 / Math.max(now - began, 1)
      progress(
        `${bar} ${(share * 100).toFixed(0).padStart(3)} %  ${(bytes / 1e6).toFixed(0)} MB  ${rate.toFixed(0)} MB/s`,
      )
    },
    clear: () => '\r\x1b[K',
  }
}

export async function stats(dir: string, options: LogFilter & { json?: boolean }, io: CliIo): Promise<void> {
  const { json, ...filter } = options
  const metrics = await logStats(dir, filter, badLines(io))
  await io.out(json ? `${JSON.stringify(metrics, null, 2)}\n` : statsReport(metrics))
}
