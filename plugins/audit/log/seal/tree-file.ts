// The tree file of a daily log, `audit-<day>.tree`: derived from the log, so that sealing resumes in O(log n) and
// verification can locate changed lines. Its content counts only where it leads to a signed root.
//
// Entries are in the order in which appending leaves completes them (post-order): each leaf is followed by the
// interior nodes that it completes. An entry is the 32-byte hash and, as 8 bytes little-endian, the offset in the
// log after the newline of the node's last line.

import { type FileSystem, writeFully } from '../files/file-system.js'
import { CompactRange, subtreesOf } from '../merkle/compact-range.js'
import { DIGEST_BYTES, type Digest, digestFromBytes } from '../merkle/tree-hash.js'

export const ENTRY_BYTES = DIGEST_BYTES + 8

export interface TreeEntry {
  readonly hash: Digest
  /** Offset in the log after the node's last line. */
  readonly logEnd: number
}

/** Number of entries of a tree of `size` leaves: every leaf, and every complete subtree. */
export function entriesOf(size: number): number {
  let ones = 0
  for (let rest = size; rest > 0; rest = Math.floor(rest / 2)) ones += rest % 2
  return 2 * size - ones
}

/** The index of the root of the complete subtree of `2^level` leaves from `start` on. */
export function entryIndex(start: number, level: number): number {
  const last = start + 2 ** level - 1
  return entriesOf(last) + level
}

/** Buffers entries and writes them at their position. */
export class TreeWriter {
  readonly #port: FileSystem
  readonly #fd: number
  readonly #buffer: Buffer
  #position: number
  #filled = 0

  /** Starts after the entries of `size` leaves. */
  constructor(port: FileSystem, fd: number, size: number, bufferBytes = 65_536) {
    this.#port = port
    this.#fd = fd
    this.#position = entriesOf(size) * ENTRY_BYTES
    this.#buffer = Buffer.allocUnsafeSlow(Math.max(bufferBytes, ENTRY_BYTES))
  }

  add(hash: Digest, logEnd: number): void {
    if (this.#filled + ENTRY_BYTES > this.#buffer.length) this.flush()
    const at = this.#filled
    this.#buffer.write(hash, at, 'binary')
    this.#buffer.writeUInt32LE(logEnd % 2 ** 32, at + DIGEST_BYTES)
    this.#buffer.writeUInt32LE(Math.floor(logEnd / 2 ** 32), at + DIGEST_BYTES + 4)
    this.#filled = at + ENTRY_BYTES
  }

  flush(): void {
    writeFully(this.#port, this.#fd, this.#buffer, 0, this.#filled, this.#position)
    this.#position += this.#filled
    this.#filled = 0
  }
}

/** The entry at `index`; undefined where the file ends before it. */
export function readEntry(port: FileSystem, fd: number, index: number): TreeEntry | undefined {
  const bytes = Buffer.alloc(ENTRY_BYTES)
  if (port.readSync(fd, bytes, 0, ENTRY_BYTES, index * ENTRY_BYTES) !== ENTRY_BYTES) return undefined
  return decodeEntry(bytes, 0)
}

function decodeEntry(bytes: Buffer, at: number): TreeEntry {
  return {
    hash: digestFromBytes(bytes, at),
    logEnd: bytes.readUInt32LE(at + DIGEST_BYTES) + bytes.readUInt32LE(at + DIGEST_BYTES + 4) * 2 ** 32,
  }
}

/** The range of the first `size` leaves; undefined where the file is too short. */
export function readRange(port: FileSystem, fd: number, size: number): CompactRange | undefined {
  const roots: Digest[] = []
  for (const { start, level } of subtreesOf(size)) {
    const entry = readEntry(port, fd, entryIndex(start, level))
    if (entry === undefined) return undefined
    roots.push(entry.hash)
  }
  return CompactRange.of(size, roots)
}
