// A `fault` line stays in the journal for ever, so a change is confirmed before it is stated.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { readExisting } from '../files/file-system.js'
import { linesOf } from '../files/lines.js'
import { checkLine } from '../format/check-line.js'
import type { PlacedRange } from '../format/journal-line.js'
import { dailyLog } from '../format/paths.js'
import { shortLogId } from '../format/stored-record.js'
import { placeOfHash } from '../format/tree-layout.js'
import { rebuildDamaged } from '../tree/inconsistent-log.js'
import { leafAt } from '../tree/read-lines.js'
import type { PlacedLine } from '../tree/sealed-leaves.js'
import type { LogTree } from './log-tree.js'
import type { TreeOptions } from './own-checkpoint.js'

/** A day whose log differs from the files of the tree. */
interface ComparedDay {
  readonly day: string
  /** The sealed ranges. */
  readonly ranges: readonly PlacedRange[]
  /** The first line that differs. */
  readonly changed: PlacedLine
}

/**
 * Whether the line differs from the sealed one: its hash, computed again under the lock, does not lead to the signed
 * root. If the files of the tree do not prove what was sealed, the lines of the day are checked by
 * themselves. If none of them is wrong, the files are rebuilt, and the change is not confirmed.
 *
 * @throws {JournalConflictError} when another process was faster.
 * @throws {AuditError} `log_unlinked` if the tree cannot be rebuilt.
 */
export async function isChangeConfirmed(
  options: TreeOptions,
  tree: LogTree,
  { day, ranges, changed: { leaf, start } }: ComparedDay,
): Promise<boolean> {
  const { port, dir, lock, logger } = options
  const proven = tree.provenLeaf(leaf)
  if (proven === undefined) {
    const { path } = placeOfHash(0, leaf)
    const damage = `${path}, or a file of the tree above it, is damaged`
    if (await hasWrongLine(options, tree, day, ranges)) {
      logger.warn({ dir }, `${damage}, and cannot be rebuilt: the log of ${day} was changed`)
      return true
    }
    await rebuildDamaged(damage, () => tree.rebuild())
    return false
  }
  return lock.run(() => {
    tree.requireCurrent()
    return readExisting(port, join(dir, dailyLog(day)), (fd) => leafAt(port, fd, start)) !== proven
  })
}

/**
 * Whether a sealed line of `day` is missing, or is one that its writer cannot have written there. False proves nothing: a
 * line that was moved or copied is valid by itself.
 */
async function hasWrongLine(
  { dir }: TreeOptions,
  tree: LogTree,
  day: string,
  ranges: readonly PlacedRange[],
): Promise<boolean> {
  const path = join(dir, dailyLog(day))
  if (!existsSync(path)) return true
  const context = { keys: tree.state.keys, day, logId: shortLogId(tree.genesis.log_id) }
  for (const { leaf, start, end, lines } of ranges) {
    let at = start
    let found = 0
    for await (const line of linesOf(path, start)) {
      if (!line.complete || line.end > end) break
      at = line.end
      if (checkLine(line.bytes, context, leaf + found).failure !== undefined) return true
      found++
      if (at === end) break
    }
    if (found !== lines || at !== end) return true
  }
  return false
}
