// `svc audit bundle` and `check-bundle`: records with their proofs in one page, for a reader without the log.
import { visibleInLine } from '@svc/core/json'
import { AuditError } from '@svc/plugin-audit/log'
import {
  checkEvidence,
  type EvidenceFailure,
  type EvidenceJudgement,
  estimateEvidence,
  evidenceOf,
  type LogFilter,
  readInput,
  readKeys,
  summarySections,
} from '@svc/plugin-audit/tools'
import { gatewayImplementation } from '../mcp/protocol.js'
import { writeText } from './audit-files.js'
import { witnessPolicy } from './audit-verify.js'
import type { CliIo } from './io.js'

export interface BundleArguments extends LogFilter {
  out?: string
  estimate?: boolean
}

const MAX_FAILURES = 20
const MAX_COUNTS = 20

export async function bundle(dirs: readonly string[], options: BundleArguments, io: CliIo): Promise<void> {
  const { out, estimate = false, ...filter } = options
  if (estimate) {
    const { records, notSealed, more, bytes, maxBytes } = await estimateEvidence(dirs, filter)
    const over = bytes > maxBytes ? `, over the limit of ${megabytes(maxBytes)}` : ''
    await io.out(
      `${records} records, about ${megabytes(bytes)}${over}; left out: ${more} beyond --limit, ${notSealed} not sealed yet\n`,
    )
    return
  }
  if (out === undefined) throw new AuditError('bad_config', 'give --out FILE.html, or --estimate')
  const madeBy = `svc-sdk ${gatewayImplementation.version}`
  const page = await evidenceOf(dirs, filter, { madeBy })
  await writeText(out, page, 0o600)
  await io.out(`${out}: ${megabytes(Buffer.byteLength(page))}\n`)
}

function megabytes(bytes: number): string {
  return bytes < 2 ** 20 ? `${Math.ceil(bytes / 1024)} KiB` : `${(bytes / 2 ** 20).toFixed(1)} MiB`
}

export interface CheckBundleArguments {
  keys: string
  witnessKeys?: string
  quorum?: number
  json?: boolean
}

export async function checkBundle(file: string, options: CheckBundleArguments, io: CliIo): Promise<void> {
  const { keys, witnessKeys, quorum, json = false } = options
  const witnesses = await witnessPolicy(witnessKeys, quorum)
  const page = await readInput(file, 'evidence')
  const judged = await checkEvidence(page, await readKeys(keys), witnesses)
  io.exit(judged.valid ? 0 : 1)
  await io.out(json ? `${JSON.stringify(judged, null, 2)}\n` : summary(judged))
}

function summary({
  valid,
  reason,
  records,
  definitions,
  failures,
  filter,
  summary: counted,
  logs,
}: EvidenceJudgement) {
  if (reason !== undefined) return `NOT PROVEN: ${reason}\n`
  const chosen = Object.entries(filter).map(([name, value]) => `${name} ${value}`)
  const lines = logs.map(({ origin, size }) => `log ${origin}, a checkpoint of ${size} leaves`)
  const { from, to } = counted
  lines.push(`${records} records and ${definitions} definitions`)
  lines.push(`of the ${counted.records} proven records, from ${from} to ${to}:`)
  for (const section of summarySections) {
    const counts = counted[section].slice(0, MAX_COUNTS).map(([name, count]) => `${count} × ${name}`)
    const more = counted[section].length - counts.length
    lines.push(`  ${section}: ${counts.join('; ') || 'none'}${more > 0 ? `; and ${more} more` : ''}`)
  }
  lines.push(`selected, as the file says, by: ${chosen.join(', ') || 'nothing'}`)
  lines.push(...failures.slice(0, MAX_FAILURES).map(failureText))
  if (failures.length > MAX_FAILURES) lines.push(`and ${failures.length - MAX_FAILURES} more`)
  lines.push('not shown by such a file: whether these are all the records of the selection')
  const verdict = valid ? 'proven' : `NOT PROVEN: ${failures.length} of ${records + definitions} records`
  return `${[...lines, verdict].map(visibleInLine).join('\n')}\n`
}

function failureText({ list, number, reason }: EvidenceFailure): string {
  return `${list === 'records' ? 'record' : 'definition'} ${number}: ${reason}`
}
