// The first leaves of a log as a range, also where files of the tree lack a hash: the hashes that stand for a removed day
// may be too large for a tile, and a file may be damaged.

import { nodeFileSystem } from '../../files/file-system.js'
import type { JournalLine } from '../../format/journal-line.js'
import { coveredBy, LEAVES_PER_PIECE } from '../../format/seal-ranges.js'
import { alignedSubtrees, type LeafRange } from '../../merkle/leaf-range.js'
import { leafHash } from '../../merkle/tree-hash.js'
import { journalLines } from '../../tree/journal-file.js'
import { addSealedLeaves, type CoverOffsets } from '../../tree/sealed-leaves.js'
import { TreeStore, TreeWriter } from '../../tree/tree-store.js'

/**
 * The range of the first `size` leaves. Leaves from the first unknown hash on are hashed again from the journal and the
 * days' records, and the covers stand for removed days.
 *
 * @throws {AuditError} `log_unlinked` if the log has neither the hashes nor what they are of.
 */
export async function treeEdge(dir: string, size: number): Promise<LeafRange | undefined> {
  const store = new TreeStore(dir, nodeFileSystem)
  const unknown = alignedSubtrees(0, size).find(
    ({ start, level }) => store.node(level, start / 2 ** level) === undefined,
  )
  if (unknown === undefined) return store.range(size)
  // No range of a seal crosses a multiple of it.
  const first = unknown.start - (unknown.start % LEAVES_PER_PIECE)
  const range = store.range(first)
  return range && (await extended(dir, range, size))
}

async function extended(dir: string, range: LeafRange, size: number): Promise<LeafRange> {
  const source = { dir, port: nodeFileSystem }
  const first = range.end
  // Its hashes stay in memory: only the writer of the log changes the files of the tree.
  const writer = new TreeWriter(dir, nodeFileSystem, range)
  const covers: CoverOffsets = new Map()
  for (const { bytes, line } of journalLines(nodeFileSystem, dir, 0, Infinity)) {
    if (line === undefined || line.leaf < first) continue
    if (range.end >= size) break
    const hash = leafHash(bytes)
    await addSealedLeaves(source, rangesFrom(line, first), writer, covers)
    writer.add(hash)
  }
  return range
}

/** The ranges of a seal that begin with the leaf `first` or after it. */
function rangesFrom(line: JournalLine, first: number) {
  let leaf = line.leaf - coveredBy(line)
  return line.kind !== 'seal'
    ? []
    : line.ranges.filter(([, , , lines]) => {
        leaf += lines
        return leaf > first
      })
}
