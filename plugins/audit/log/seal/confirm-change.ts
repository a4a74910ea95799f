// A fault stays in the journal for ever, so a change is confirmed before it is stated.

import { join } from 'node:path'
import { readExisting } from '../files/file-system.js'
import { dailyLog } from '../format/paths.js'
import type { LogTree, TreeParts } from './log-tree.js'
import { leafAt } from './read-lines.js'
import type { PlacedLine } from './sealed-leaves.js'

/**
 * Whether the line of `day` is not the one that was sealed there: its hash, computed again under the lock, is not the one
 * that leads to the signed root. Where the files of the tree do not prove what was sealed, they are rebuilt, and the
 * change is not confirmed.
 *
 * @throws {JournalMoved} when another process was faster.
 * @throws {AuditError} `log_unlinked` where the tree cannot be rebuilt.
 */
export async function isChangeConfirmed(
  { port, dir, lock }: TreeParts,
  tree: LogTree,
  day: string,
  { leaf, start }: PlacedLine,
): Promise<boolean> {
  const proven = tree.provenLeaf(leaf)
  if (proven === undefined) {
    await tree.rebuild()
    return false
  }
  return lock.run(() => {
    tree.requireCurrent()
    return readExisting(port, join(dir, dailyLog(day)), (fd) => leafAt(port, fd, start)) !== proven
  })
}
