// The hashes of proofs, read from the files of the tree.

import type { FileSystem } from '../files/file-system.js'
import { AuditError } from '../format/errors.js'
import type { LeafRange } from '../merkle/proof.js'
import type { Digest } from '../merkle/tree-hash.js'
import { TreeStore } from '../seal/tree-store.js'

/**
 * The root of each range of leaves, as RFC 6962 §2.1 defines it for a range of a proof.
 *
 * @throws {AuditError} `read_failed` where the tree lacks a hash.
 */
export function rootsOf(port: FileSystem, dir: string, ranges: readonly LeafRange[]): Digest[] {
  const store = new TreeStore(dir, port)
  return ranges.map((range) => {
    const root = store.rootOf(range)
    if (root !== undefined) return root
    throw new AuditError(
      'read_failed',
      `the tree of ${dir} has no hashes of the leaves ${range.start} to ${range.end - 1}`,
    )
  })
}
