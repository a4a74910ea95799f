// Hashes the lines of a log in chunks, asynchronously, so that appending continues while a long log is hashed.

import type { FileSystem } from '../files/file-system.js'
import { LineBlocks } from '../files/lines.js'
import type { Digest } from '../format/digest.js'
import { leafHash } from '../merkle/tree-hash.js'

const CHUNK_BYTES = 131_072
const NEWLINE = 0x0a

/**
 * Called for each line in order with its leaf hash, the offset after its newline and its bytes, which are valid during the
 * call; `false` ends the hashing there.
 */
type OnLeaf = (leaf: Digest, logEnd: number, line: Buffer) => unknown

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
  const blocks = new LineBlocks('', { from, to, chunkBytes: CHUNK_BYTES })
  for (;;) {
    const space = blocks.space()
    const [, , length, position] = space
    if (length === 0) break
    const got = await read(port, fd, space)
    if (got === 0) throw new RangeError(`the log ends at ${position}, before ${to}`)
    for (const { bytes, end } of blocks.take(got)) if (onLeaf(leafHash(bytes), end, bytes) === false) return
  }
  if (blocks.rest() !== undefined) throw new RangeError(`the log has no newline at ${to}`)
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

function read(
  port: Pick<FileSystem, 'read'>,
  fd: number,
  space: ReturnType<LineBlocks['space']>,
): Promise<number> {
  return new Promise((resolve, reject) => {
    port.read(fd, ...space, (error, bytes) =>
      error === null || error === undefined ? resolve(bytes) : reject(error),
    )
  })
}
