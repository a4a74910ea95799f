// A fault stays in the journal for ever, so a change is confirmed before it is stated.

import { join } from 'node:path'
import { readExisting } from '../files/file-system.js'
import { dailyLog } from '../format/paths.js'
import type { PlacedRange } from '../tree/seal-ranges.js'
import { placeOfHash } from '../tree/tree-layout.js'
import type { LogTree, TreeParts } from './log-tree.js'
import { hasWrongLine } from './own-lines.js'
import { leafAt } from './read-lines.js'
import type { PlacedLine } from './sealed-leaves.js'
import { rebuilding } from './unlinked.js'

/** A day whose log differs from the files of the tree. */
export interface ComparedDay {
  readonly day: string
  /** Those that are sealed. */
  readonly ranges: readonly PlacedRange[]
  /** The first line that differs. */
  readonly changed: PlacedLine
}

/**
 * Whether the line is not the one that was sealed there: its hash, computed again under the lock, is not the one that
 * leads to the signed root. Where the files of the tree do not prove what was sealed, the lines of the day are checked by
 * themselves. If none of them is wrong, the files are rebuilt, and the change is not confirmed.
 *
 * @throws {JournalMoved} when another process was faster.
 * @throws {AuditError} `log_unlinked` where the tree cannot be rebuilt.
 */
export async function isChangeConfirmed(
  parts: TreeParts,
  tree: LogTree,
  { day, ranges, changed: { leaf, start } }: ComparedDay,
): Promise<boolean> {
  const { port, dir, lock, logger } = parts
  const proven = tree.provenLeaf(leaf)
  if (proven === undefined) {
    const { path } = placeOfHash(0, leaf)
    const damage = `${path}, or a file of the tree above it, is damaged`
    if (await hasWrongLine(parts, tree, day, ranges)) {
      logger.warn({ dir }, `${damage}, and cannot be rebuilt: the log of ${day} was changed`)
      return true
    }
    await rebuilding(damage, () => tree.rebuild())
    return false
  }
  return lock.run(() => {
    tree.requireCurrent()
    return readExisting(port, join(dir, dailyLog(day)), (fd) => leafAt(port, fd, start)) !== proven
  })
}
