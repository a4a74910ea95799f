// The leaves in the files of `tree/0`. They are derived and count only where they lead to a signed root; then they show
// which line of a changed log differs.

import { closeSync, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { systemCode } from '../../format/errors.js'
import { DIGEST_BYTES, type Digest, digestFromBytes } from '../../merkle/tree-hash.js'
import { HASHES_PER_FILE, placeOfHash } from '../../tree/tree-layout.js'

const READ_HASHES = 4_096
/** A hash that is not known. */
const UNKNOWN: Digest = '\0'.repeat(DIGEST_BYTES)

/** The leaves `[from, to)` in blocks; ends early where one is not known. */
export function* storedLeaves(dir: string, from: number, to: number): Generator<Digest[], void, void> {
  const bytes = Buffer.alloc(READ_HASHES * DIGEST_BYTES)
  for (let at = from; at < to; ) {
    const place = placeOfHash(0, at)
    const inFile = Math.min(to - at, HASHES_PER_FILE - (at % HASHES_PER_FILE))
    const fd = openIfThere(join(dir, place.path))
    if (fd === undefined) return
    try {
      for (let done = 0; done < inFile; ) {
        const wanted = Math.min(READ_HASHES, inFile - done) * DIGEST_BYTES
        const got = readSync(fd, bytes, 0, wanted, place.offset + done * DIGEST_BYTES)
        const leaves: Digest[] = []
        for (let offset = 0; offset + DIGEST_BYTES <= got; offset += DIGEST_BYTES) {
          const leaf = digestFromBytes(bytes, offset)
          if (leaf === UNKNOWN) break
          leaves.push(leaf)
        }
        yield leaves
        if (leaves.length * DIGEST_BYTES < wanted) return
        done += leaves.length
      }
    } finally {
      closeSync(fd)
    }
    at += inFile
  }
}

function openIfThere(path: string): number | undefined {
  try {
    return openSync(path, 'r')
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    throw error
  }
}
