// The journal's statements about the whole log: its identity, its keys and removed days. They are read before the tree,
// because a line may withdraw a key or a day from leaves that stand before it.

import { join } from 'node:path'
import { nodeFileSystem, sizeOf } from '../../files/file-system.js'
import { lineBlocksOf } from '../../files/lines.js'
import { beginsSeal, parseJournalLine } from '../../format/journal-codec.js'
import type { LineOf } from '../../format/journal-line.js'
import { JOURNAL_FILE } from '../../format/paths.js'
import { KeyHistory } from '../../tree/key-history.js'

export interface Removal {
  /** Number of the journal line, counted from 1. */
  readonly number: number
  readonly line: LineOf<'remove'>
}

export interface JournalFacts {
  readonly genesis: LineOf<'genesis'> | undefined
  /** Id of the log in the first line that can be read. */
  readonly logId: string | undefined
  /** Every key that a valid line introduced. */
  readonly keys: KeyHistory
  readonly removals: ReadonlyMap<string, Removal>
  /** The retention in force at the end. */
  readonly retentionDays: number | undefined
}

/** The statements of the journal in `dir`; undefined if it does not exist. */
export async function factsOfLog(dir: string, keys?: KeyHistory): Promise<JournalFacts | undefined> {
  const path = join(dir, JOURNAL_FILE)
  const size = sizeOf(nodeFileSystem, path) ?? 0
  return size === 0 ? undefined : journalFacts(path, size, keys)
}

/**
 * Reads the first `size` bytes of the journal. Lines with a wrong signature are skipped.
 *
 * @param keys are trusted if the genesis is missing; the keys of the log join them.
 * @param from the byte after a newline at which to begin.
 */
export async function journalFacts(
  path: string,
  size: number,
  keys = new KeyHistory(),
  from = 0,
): Promise<JournalFacts> {
  const removals = new Map<string, Removal>()
  let genesis: LineOf<'genesis'> | undefined
  let logId: string | undefined
  let retentionDays: number | undefined
  for await (const lines of lineBlocksOf(path, from)) {
    for (const { bytes, number, complete, start, end } of lines) {
      if (end > size || !complete) return { genesis, logId, keys, removals, retentionDays }
      // Seals state none of this.
      if (logId !== undefined && beginsSeal(bytes)) continue
      const line = parseJournalLine(bytes)
      logId ??= line?.log_id
      if (line === undefined || line.kind === 'seal' || line.log_id !== logId) continue
      if ((line.kind === 'genesis' && start > 0) || !keys.takeSigned(line)) continue
      if (line.kind === 'genesis') genesis = line
      if (line.kind === 'genesis') retentionDays = line.retention_days
      if (line.kind === 'retention') retentionDays = line.days
      if (line.kind === 'remove') removals.set(line.day, { number, line })
    }
  }
  return { genesis, logId, keys, removals, retentionDays }
}
