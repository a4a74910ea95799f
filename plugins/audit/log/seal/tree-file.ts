// The tree of a daily log on disk, `audit-<day>.tree`: derived from the log, so that sealing resumes in
// O(log n), and verification can say which line was touched. Nothing in it is believed unless it leads to
// a signed root.
//
// Entries stand in the order in which appending leaves completes them (post-order): each leaf is followed
// by the interior nodes that it completes. An entry is the 32-byte hash and, as 8 bytes little-endian, the
// offset in the log after the newline of the node's last line.

import { type FileSystem, writeFullyAt } from '../files/file-system.js'
import { CompactRange, subtreesOf } from '../merkle/compact-range.js'
import { DIGEST_BYTES, type Digest, digestFromBytes } from '../merkle/tree-hash.js'

export const ENTRY_BYTES = DIGEST_BYTES + 8

export interface TreeEntry {
  readonly hash: Digest
  /** Bytes of the log up to the end of the node's last line. */
  readonly logEnd: number
}

/** Entries of a tree of `size` leaves: every leaf, and every complete subtree above one. */
export function entriesOf(size: number): number {
  let ones = 0
  for (let rest = size; rest > 0; rest = Math.floor(rest / 2)) ones += rest % 2
  return 2 * size - ones
}

/** Where the root of the complete subtree of `2^level` leaves from `start` on stands. */
export function entryIndex(start: number, level: number): number {
  const last = start + 2 ** level - 1
  return entriesOf(last) + level
}

/** Entries waiting to be written at their place. */
export class TreeWriter {
  readonly #port: FileSystem
  readonly #fd: number
  readonly #buffer: Buffer
  #position: number
  #filled = 0

  /** Writes from behind the tree of `size` leaves on. */
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
    writeFullyAt(this.#port, this.#fd, this.#buffer.subarray(0, this.#filled), this.#position)
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

/** The range of the first `size` leaves, or undefined where the file does not hold it. */
export function readRange(port: FileSystem, fd: number, size: number): CompactRange | undefined {
  const roots: Digest[] = []
  for (const { start, level } of subtreesOf(size)) {
    const entry = readEntry(port, fd, entryIndex(start, level))
    if (entry === undefined) return undefined
    roots.push(entry.hash)
  }
  return CompactRange.of(size, roots)
}
