// The journal's statements about the whole log: its identity, its keys and removed days. They are read first, because
// a later line may withdraw a key or a day.

import { lineBlocksOf } from '../../files/lines.js'
import { hasSigned } from '../../keys/signed-json.js'
import { parseJournalLine } from '../../tree/journal-codec.js'
import type { JournalLine, KeySpan, LineOf } from '../../tree/journal-line.js'
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
  readonly spans: readonly KeySpan[]
  readonly removals: ReadonlyMap<string, Removal>
  /** The retention in force at the end. */
  readonly retentionDays: number | undefined
}

/**
 * Reads the first `size` bytes of the journal. Lines with a wrong signature are skipped.
 *
 * @param given keys that are trusted if the genesis is missing.
 */
export async function journalFacts(
  path: string,
  size: number,
  given: readonly KeySpan[],
): Promise<JournalFacts> {
  let history = KeyHistory.of(given)
  const removals = new Map<string, Removal>()
  let genesis: LineOf<'genesis'> | undefined
  let logId: string | undefined
  let retentionDays: number | undefined
  let offset = 0
  for await (const lines of lineBlocksOf(path)) {
    for (const { bytes, number, complete } of lines) {
      offset += bytes.length + 1
      if (offset > size || !complete) break
      const line = parseJournalLine(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length))
      if (line === undefined) continue
      logId ??= line.log_id
      // Nearly all lines are seals, which state none of this.
      if (line.kind === 'seal' || line.log_id !== logId || !isSigned(line, history)) continue
      if (line.kind === 'genesis') {
        if (number > 1) continue
        genesis = line
        history = new KeyHistory()
      }
      if (line.kind === 'genesis') retentionDays = line.retention_days
      if (line.kind === 'retention') retentionDays = line.days
      if (line.kind === 'remove') removals.set(line.day, { number, line })
      if (history.whyNot(line) === undefined) history.apply(line)
    }
    if (offset > size) break
  }
  return { genesis, logId, spans: history.spans(), removals, retentionDays }
}

function isSigned(line: JournalLine, history: KeyHistory): boolean {
  const own = line.kind === 'genesis' ? KeyHistory.of([[line.key, 0, null, null]]) : history
  const key = own.at(line.key_id, line.leaf)
  return key !== undefined && hasSigned(line, key)
}
