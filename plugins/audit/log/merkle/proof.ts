// Checks proofs of the log's tree with the hash of Node.

import type { Digest } from '../format/digest.js'
import { consistencyRoots, inclusionRoot } from '../format/merkle-proof.js'
import { nodeHash } from './tree-hash.js'

/** Whether `path` proves that `leaf` is leaf `index` of the tree of `size` leaves with this root. */
export function verifyInclusion(
  leaf: Digest,
  place: { readonly index: number; readonly size: number },
  path: readonly Digest[],
  root: Digest,
): boolean {
  return inclusionRoot(leaf, place, path, nodeHash) === root
}

/** Whether `path` proves that the tree `older` is a prefix of the tree `newer`. */
export function verifyConsistency(
  older: { readonly size: number; readonly root: Digest },
  newer: { readonly size: number; readonly root: Digest },
  path: readonly Digest[],
): boolean {
  const roots = consistencyRoots(older, newer.size, path, nodeHash)
  return roots !== undefined && roots.older === older.root && roots.newer === newer.root
}
