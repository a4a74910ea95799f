// The sealed leaves from the tree file, used after they are shown to lead to a signed root. They show which line
// of a changed log differs.

import { closeSync, openSync, readSync } from 'node:fs'
import { systemCode } from '../format/errors.js'
import { CompactRange } from '../merkle/compact-range.js'
import { type Digest, digestFromBytes } from '../merkle/tree-hash.js'
import type { Head } from '../seal/checkpoint.js'
import { ENTRY_BYTES, entriesOf } from '../seal/tree-file.js'

const READ_ENTRIES = 4_096

export type Leaves = () => Generator<Digest[], void, void>

/** The leaves of `head`; undefined where the file at `path` does not lead to its root. */
export function sealedLeaves(path: string, head: Head): Leaves | undefined {
  const leaves = () => treeLeaves(path, head.size)
  const range = new CompactRange()
  try {
    for (const some of leaves()) for (const leaf of some) range.append(leaf)
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    throw error
  }
  return range.size === head.size && range.root() === head.root ? leaves : undefined
}

/** The first `size` leaves in the file, or as many as it has, in blocks. */
function* treeLeaves(path: string, size: number): Generator<Digest[], void, void> {
  const fd = openSync(path, 'r')
  try {
    const bytes = Buffer.alloc(READ_ENTRIES * ENTRY_BYTES)
    let leaf = 0
    for (let entry = 0; leaf < size; entry += READ_ENTRIES) {
      const got = readSync(fd, bytes, 0, bytes.length, entry * ENTRY_BYTES)
      const entries = Math.floor(got / ENTRY_BYTES)
      const some: Digest[] = []
      for (; leaf < size && entriesOf(leaf) < entry + entries; leaf++) {
        some.push(digestFromBytes(bytes, (entriesOf(leaf) - entry) * ENTRY_BYTES))
      }
      yield some
      if (entries < READ_ENTRIES) return
    }
  } finally {
    closeSync(fd)
  }
}
