// Creates the inclusion proof of one record.

import { join } from 'node:path'
import { type DailyFile, dailyFiles } from '../files/daily-files.js'
import { nodeFileSystem } from '../files/file-system.js'
import { linesOf } from '../files/lines.js'
import { AuditError } from '../format/errors.js'
import { checkpointFile } from '../format/paths.js'
import { objectIn } from '../format/stored-record.js'
import { CompactRange } from '../merkle/compact-range.js'
import { inclusionRanges, RangeRoots } from '../merkle/proof.js'
import { leafHash } from '../merkle/tree-hash.js'
import { newestCheckpoint } from '../seal/head-file.js'
import { proofText } from './proof-text.js'

const MAX_LISTED_MATCHES = 10

export interface RecordIds {
  readonly traceId: string
  /** Required where several records have the trace id. */
  readonly spanId?: string
}

interface Match {
  readonly file: DailyFile
  /** Counted from 1. */
  readonly line: number
  readonly record: Buffer
  readonly spanId: unknown
}

/**
 * The proof, based on the newest checkpoint of its day, that the log in `dir` contains the record: a text that can
 * be checked without the log.
 *
 * @throws {AuditError} `not_found`; `ambiguous`, listing the matches; `not_sealed`; `sealed_log_changed` where the
 * log does not match its checkpoint; `read_failed`.
 */
export async function proveRecord(dir: string, ids: RecordIds): Promise<string> {
  const { file, line, record } = await find(dir, ids)
  const newest = newestCheckpoint(nodeFileSystem, join(dir, checkpointFile(file.day)))
  const index = line - 1
  if (newest?.checkpoint === undefined || newest.checkpoint.size <= index) {
    throw new AuditError(
      'not_sealed',
      `${file.name}:${line} is not sealed yet: try again after the next checkpoint`,
    )
  }
  const { size, root } = newest.checkpoint
  const ranges = new RangeRoots(inclusionRanges(index, size))
  const tree = new CompactRange()
  for await (const { bytes } of linesOf(join(dir, file.name))) {
    if (tree.size === size) break
    const leaf = leafHash(bytes)
    ranges.append(leaf)
    tree.append(leaf)
  }
  if (tree.size !== size || tree.root() !== root) {
    throw new AuditError(
      'sealed_log_changed',
      `${file.name} does not match its checkpoint; npx svc-sdk audit verify shows where`,
    )
  }
  return proofText({ record, index, path: ranges.roots(), checkpoint: newest.signed })
}

async function find(dir: string, { traceId, spanId }: RecordIds): Promise<Match> {
  const matches: Match[] = []
  for (const file of await dailyFiles(dir)) {
    for await (const { bytes, number: line } of linesOf(join(dir, file.name))) {
      // Most lines are skipped without being parsed.
      if (!bytes.includes(traceId)) continue
      const record = objectIn(bytes)
      if (record?.['trace_id'] !== traceId) continue
      if (spanId !== undefined && record['span_id'] !== spanId) continue
      matches.push({ file, line, record: Buffer.from(bytes), spanId: record['span_id'] })
    }
  }
  const [first] = matches
  const sought = `trace id ${traceId}${spanId === undefined ? '' : ` and span id ${spanId}`}`
  if (first === undefined) throw new AuditError('not_found', `no record has the ${sought}`)
  // For a record that was appended twice, the first position is proven.
  if (matches.every((match) => match.record.equals(first.record))) return first
  const named = matches
    .slice(0, MAX_LISTED_MATCHES)
    .map((match) => `${match.file.name}:${match.line} ${match.spanId}`)
  const more = matches.length > named.length ? `, and ${matches.length - named.length} more` : ''
  throw new AuditError(
    'ambiguous',
    `${matches.length} records have the ${sought}; choose one by its span id: ${named.join(', ')}${more}`,
  )
}
