// Hashes the lines of a log that one range of a seal covers, and the nodes above them that lie within it: on
// the event loop or on the hashing thread.

import type { FileSystem } from '../files/file-system.js'
import { LeafRange } from '../merkle/leaf-range.js'
import { type Digest, digestsToBytes } from '../merkle/tree-hash.js'
import { LEAVES_PER_PIECE } from '../tree/seal-ranges.js'
import { LEVEL_STEP } from '../tree/tree-layout.js'
import { hashLines } from './read-lines.js'

export interface PieceSource {
  /** Offset of the first line in the log. */
  readonly from: number
  /** Offset after the last line that may be hashed. */
  readonly to: number
  /** Index of the first line's leaf. */
  readonly leaf: number
}

/** Lines up to the next multiple of `LEAVES_PER_PIECE` leaves, or to the end of their log. */
export interface HashedPiece {
  readonly lines: number
  /** Offset after the last line. */
  readonly end: number
  /** Leaf hashes, 32 bytes each. */
  readonly leaves: Uint8Array<ArrayBuffer>
  /** Roots of the subtrees of at most `LEVEL_STEP` that tile the lines, 32 bytes each. */
  readonly roots: Uint8Array<ArrayBuffer>
}

/** @throws as `hashLines`. */
export async function hashPiece(
  port: Pick<FileSystem, 'read'>,
  fd: number,
  { from, to, leaf: first }: PieceSource,
): Promise<HashedPiece> {
  const leaves: Digest[] = []
  const range = new LeafRange(first, LEVEL_STEP)
  let end = from
  await hashLines(port, fd, { from, to }, (leaf, lineEnd) => {
    leaves.push(leaf)
    range.append(leaf)
    end = lineEnd
    return range.end % LEAVES_PER_PIECE !== 0
  })
  return { lines: leaves.length, end, leaves: digestsToBytes(leaves), roots: range.rootBytes() }
}
