// Where a verification begins that continues an earlier one: the log as it was at the head that the verifier has kept. The
// head's root shows that the files of the tree and the journal lead to it, so the records before it are not read again.

import { join } from 'node:path'
import { nodeFileSystem } from '../../files/file-system.js'
import { lineBlocksOf } from '../../files/lines.js'
import { AuditError } from '../../format/errors.js'
import { parseJournalLine } from '../../format/journal-codec.js'
import { JOURNAL_FILE } from '../../format/paths.js'
import { hasSigned } from '../../keys/signatures.js'
import type { LeafRange } from '../../merkle/leaf-range.js'
import { readGenesis } from '../../tree/journal-file.js'
import type { JournalState } from '../../tree/journal-state.js'
import type { KeyHistory } from '../../tree/key-history.js'
import { resumedState } from '../../tree/resumed-state.js'
import type { SavedCheckpoint } from './kept-checkpoint.js'
import { faultMessage, type VerifyFailure } from './report.js'

export interface Beginning {
  readonly head: SavedCheckpoint
  /** After the journal line that the head ends with. */
  readonly state: JournalState
  /** Sealed bytes of each day at the head. */
  readonly ends: ReadonlyMap<string, number>
  readonly range: LeafRange
  /** Byte of the journal at which the lines begin that follow, and number of the lines before. */
  readonly offset: number
  readonly lines: number
  /** The writer's statements before the head that sealed bytes had changed. */
  readonly faults: readonly VerifyFailure[]
}

/**
 * The log at `head`.
 *
 * @param journalSize bytes of the journal.
 * @returns undefined if the log does not lead to the head. A verification of the whole log then says why.
 */
export async function beginningAt(
  dir: string,
  head: SavedCheckpoint,
  journalSize: number,
): Promise<Beginning | undefined> {
  const genesis = readGenesis(nodeFileSystem, dir)
  if (genesis?.origin !== head.origin) return undefined
  try {
    const files = { dir, port: nodeFileSystem }
    const { state, range, offset } = await resumedState(files, genesis, { head, own: head }, journalSize)
    if (range === undefined) return undefined
    const before = await linesBefore(dir, offset, state.keys)
    return { head, state, ends: new Map(state.ends), range, offset, ...before }
  } catch (error) {
    if (error instanceof AuditError && error.code === 'log_unlinked') return undefined
    throw error
  }
}

const FAULT = '"kind":"fault"'

/** The number of journal lines before the byte `end`, and the faults that they state. */
async function linesBefore(
  dir: string,
  end: number,
  keys: KeyHistory,
): Promise<Pick<Beginning, 'lines' | 'faults'>> {
  const faults: VerifyFailure[] = []
  let count = 0
  for await (const lines of lineBlocksOf(join(dir, JOURNAL_FILE))) {
    for (const { bytes, number, end: lineEnd } of lines) {
      if (lineEnd > end) return { lines: count, faults }
      count = number
      const line = bytes.includes(FAULT) ? parseJournalLine(bytes) : undefined
      const key = line && keys.at(line.key_id, line.leaf)
      if (line?.kind !== 'fault' || key === undefined || !hasSigned(line, key)) continue
      faults.push({ file: JOURNAL_FILE, line: number, kind: 'fault', message: faultMessage(line) })
    }
  }
  return { lines: count, faults }
}
