// Checks the sealed lines of a day by themselves, where the files of the tree cannot prove what was sealed.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { CanonicalJsonError, canonicalize, parseJsonObject } from '@svc/core/json'
import { linesOf } from '../files/lines.js'
import { utcDayOf } from '../format/day.js'
import { dailyLog } from '../format/paths.js'
import { textOf } from '../format/stored-record.js'
import { hasSigned } from '../keys/signed-json.js'
import { shortLogId } from '../tree/record-place.js'
import type { PlacedRange } from '../tree/seal-ranges.js'
import type { LogTree, TreeParts } from './log-tree.js'

/**
 * Whether a sealed line of `day` is missing, or is one that its writer cannot have written there. False proves nothing: a
 * line that was moved or copied is valid by itself.
 */
export async function hasWrongLine(
  { dir }: TreeParts,
  tree: LogTree,
  day: string,
  ranges: readonly PlacedRange[],
): Promise<boolean> {
  const path = join(dir, dailyLog(day))
  if (!existsSync(path)) return true
  for (const { leaf, start, end, lines } of ranges) {
    let at = start
    let found = 0
    for await (const { bytes, complete } of linesOf(path, start)) {
      at += bytes.length + 1
      if (!complete || at > end) break
      if (!isRecord(bytes, tree, day, leaf + found)) return true
      found++
      if (at === end) break
    }
    if (found !== lines || at !== end) return true
  }
  return false
}

/** Whether it is canonical, of this log and day, and signed by a key that was trusted at `leaf`. */
function isRecord(bytes: Uint8Array, { genesis, state }: LogTree, day: string, leaf: number): boolean {
  const text = textOf(bytes)
  const record = text === undefined ? undefined : parseJsonObject(text)
  if (record === undefined || utcDayOf(record['ts']) !== day) return false
  if (record['log_id'] !== shortLogId(genesis.log_id)) return false
  try {
    const isSigned = state.keys.allAt(leaf).some((key) => hasSigned(record, key))
    return isSigned && canonicalize(record) === text
  } catch (error) {
    if (error instanceof CanonicalJsonError) return false
    throw error
  }
}
