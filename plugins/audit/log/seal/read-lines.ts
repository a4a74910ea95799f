// Hashes the lines of a log in chunks, asynchronously, so that appending continues while a long log is hashed.

import type { FileSystem } from '../files/file-system.js'
import type { Digest } from '../format/digest.js'
import { leafHash, leafHashWithin } from '../merkle/tree-hash.js'

const CHUNK_BYTES = 131_072
const NEWLINE = 0x0a

/** Called for each line in order with its leaf hash and the offset after its newline; `false` ends the hashing there. */
type OnLeaf = (leaf: Digest, logEnd: number) => unknown

/**
 * Hashes the lines of `fd` between the offsets `from` and `to`, which both follow a newline.
 *
 * @throws {RangeError} when the file ends before `to`, or `to` is within a line.
 */
export async function hashLines(
  port: Pick<FileSystem, 'read'>,
  fd: number,
  { from, to }: { readonly from: number; readonly to: number },
  onLeaf: OnLeaf,
): Promise<void> {
  // The first byte is spare for the hash of the first line.
  let buffer = Buffer.allocUnsafeSlow(1 + Math.min(CHUNK_BYTES, Math.max(to - from, 1)))
  let offset = from
  let goesOn = true
  const each = (leaf: Digest, end: number) => {
    goesOn = onLeaf(leaf, end) !== false
    return goesOn
  }
  while (goesOn && offset < to) {
    const wanted = Math.min(buffer.length - 1, to - offset)
    const got = await read(port, fd, buffer.subarray(1, 1 + wanted), offset)
    if (got < wanted) throw new RangeError(`the log ends at ${offset + got}, before ${to}`)
    const done = hashChunk(buffer, 1 + got, offset, each)
    if (done === 0) {
      if (offset + got >= to) throw new RangeError(`the log has no newline at ${to}`)
      // A line longer than the chunk.
      buffer = Buffer.allocUnsafeSlow(1 + 2 * (buffer.length - 1))
    }
    offset += done
  }
}

/** The hash of the line that begins at `start`; undefined if the file has no whole line there. */
export function leafAt(port: FileSystem, fd: number, start: number): Digest | undefined {
  for (let length = CHUNK_BYTES; ; length *= 2) {
    const bytes = Buffer.alloc(length)
    const got = port.readSync(fd, bytes, 0, length, start)
    const end = bytes.subarray(0, got).indexOf(NEWLINE)
    if (end >= 0) return leafHash(bytes.subarray(0, end))
    if (got < length) return undefined
  }
}

/** Hashes the whole lines in `buffer[1, end)`, which starts at `offset` in the log; returns their bytes. */
function hashChunk(
  buffer: Buffer,
  end: number,
  offset: number,
  each: (leaf: Digest, end: number) => boolean,
): number {
  const filled = buffer.subarray(0, end)
  let start = 1
  for (let at = filled.indexOf(NEWLINE, 1); at >= 0; at = filled.indexOf(NEWLINE, start)) {
    const leaf = leafHashWithin(filled, start, at)
    start = at + 1
    if (!each(leaf, offset + start - 1)) break
  }
  return start - 1
}

function read(port: Pick<FileSystem, 'read'>, fd: number, into: Buffer, position: number): Promise<number> {
  return new Promise((resolve, reject) => {
    port.read(fd, into, 0, into.length, position, (error, bytes) =>
      error === null || error === undefined ? resolve(bytes) : reject(error),
    )
  })
}
