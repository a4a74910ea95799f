// Reads a range of a growing file twice in small pieces: once for its hash, which its key needs before a
// byte is sent, once to send it. Memory does not grow with the range or with its longest line. Between two
// pieces whatever else the thread sends has its turn.

import { createHash } from 'node:crypto'
import { readSync } from 'node:fs'
import { Readable } from 'node:stream'
import type { Range } from './source.js'
import type { Pace } from './throttle.js'

const PIECE_BYTES = 131_072
const NEWLINE = 0x0a

/** The whole lines from `start` on, in at most about `limit` bytes of the first `size`; undefined if none ends. */
export async function wholeLines(
  file: number,
  { start, size, limit }: { start: number; size: number; limit: number },
  pace: Pace,
): Promise<Range | undefined> {
  const hash = createHash('sha256')
  const buffer = Buffer.allocUnsafe(PIECE_BYTES)
  let found: { end: number; sha256: string } | undefined
  for (let at = start; at < size; ) {
    const isPast = at - start >= limit
    if (isPast && found !== undefined) break
    const piece = readPiece(file, buffer, at, isPast ? size : Math.min(size, start + limit))
    // A line longer than the limit is taken whole, and nothing after it.
    const lines = (isPast ? piece.indexOf(NEWLINE) : piece.lastIndexOf(NEWLINE)) + 1
    hash.update(piece.subarray(0, lines))
    if (lines > 0) found = { end: at + lines, sha256: hash.copy().digest('hex') }
    hash.update(piece.subarray(lines))
    at += piece.length
    if (at < size) await pace.rest()
  }
  return found === undefined ? undefined : { start, ...found }
}

/** Exactly `[start, end)`, as it was begun before. */
export async function fixedRange(file: number, start: number, end: number, pace: Pace): Promise<Range> {
  const hash = createHash('sha256')
  const buffer = Buffer.allocUnsafe(PIECE_BYTES)
  for (let at = start; at < end; ) {
    const piece = readPiece(file, buffer, at, end)
    hash.update(piece)
    at += piece.length
    if (at < end) await pace.rest()
  }
  return { start, end, sha256: hash.digest('hex') }
}

/** Whether a line ends directly before `offset`. */
export function isLineStart(file: number, offset: number): boolean {
  if (offset === 0) return true
  const byte = Buffer.alloc(1)
  return readSync(file, byte, 0, 1, offset - 1) === 1 && byte[0] === NEWLINE
}

/** The bytes of the range. Fails where the file has become shorter meanwhile. */
export function bytesOf(file: number, { start, end }: Range, pace: Pace): Readable {
  return Readable.from(pieces(file, start, end, pace), { objectMode: false, highWaterMark: PIECE_BYTES })
}

async function* pieces(file: number, start: number, end: number, pace: Pace): AsyncGenerator<Buffer> {
  for (let at = start; at < end; ) {
    // A buffer of its own: whoever sends it may hold it longer than this turn.
    const piece = readPiece(file, Buffer.allocUnsafe(PIECE_BYTES), at, end)
    yield piece
    at += piece.length
    if (at < end) await pace.rest()
  }
}

function readPiece(file: number, buffer: Buffer, at: number, stop: number): Buffer {
  const bytesRead = readSync(file, buffer, 0, Math.min(buffer.length, stop - at), at)
  if (bytesRead === 0) throw new Error(`the file ends at ${at}, ${stop - at} bytes short`)
  return buffer.subarray(0, bytesRead)
}
