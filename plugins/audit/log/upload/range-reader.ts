// Reads a range of a growing file twice in chunks: once for its hash, which the object key needs before the first
// byte is sent, and once to send it. Memory does not grow with the range or its longest line. Between two chunks
// the thread sends other files.

import { createHash, type Hash } from 'node:crypto'
import { readSync } from 'node:fs'
import type { Range } from './source.js'
import type { UploadThrottle } from './throttle.js'

const CHUNK_BYTES = 131_072
const NEWLINE = 0x0a

/**
 * The whole lines from `start` on, in about `limit` bytes of the first `size`; undefined if no line ends there.
 */
export async function wholeLines(
  file: number,
  { start, size, limit }: { start: number; size: number; limit: number },
  throttle: UploadThrottle,
): Promise<Range | undefined> {
  const hash = createHash('sha256')
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES)
  let found: { end: number; sha256: string } | undefined
  for (let at = start; at < size; ) {
    const isPast = at - start >= limit
    if (isPast && found !== undefined) break
    const chunk = readChunk(file, buffer, at, isPast ? size : Math.min(size, start + limit))
    // A line longer than the limit is sent alone.
    const lines = (isPast ? chunk.indexOf(NEWLINE) : chunk.lastIndexOf(NEWLINE)) + 1
    hash.update(chunk.subarray(0, lines))
    if (lines > 0) found = { end: at + lines, sha256: hash.copy().digest('hex') }
    hash.update(chunk.subarray(lines))
    at += chunk.length
    if (at < size) await throttle.wait()
  }
  return found === undefined ? undefined : { start, ...found }
}

/** The whole entries from `start` on, in about `limit` bytes of the first `size`; undefined if there are none. */
export async function wholeEntries(
  file: number,
  { start, size, limit }: { start: number; size: number; limit: number },
  entryBytes: number,
  throttle: UploadThrottle,
): Promise<Range | undefined> {
  const bytes = Math.min(size - start, Math.max(limit, entryBytes))
  const end = start + bytes - (bytes % entryBytes)
  return end <= start ? undefined : fixedRange(file, start, end, throttle)
}

/** Exactly `[start, end)`, a range that an earlier attempt began. */
export async function fixedRange(
  file: number,
  start: number,
  end: number,
  throttle: UploadThrottle,
): Promise<Range> {
  const hash = createHash('sha256')
  await update(hash, file, { start, end }, throttle)
  return { start, end, sha256: hash.digest('hex') }
}

/** The ranges from `start` to each of `ends`, which ascend. Their bytes are read once. */
export async function rangesFrom(
  file: number,
  start: number,
  ends: readonly number[],
  throttle: UploadThrottle,
): Promise<Range[]> {
  const hash = createHash('sha256')
  const ranges: Range[] = []
  for (const end of ends) {
    await update(hash, file, { start: ranges.at(-1)?.end ?? start, end }, throttle)
    ranges.push({ start, end, sha256: hash.copy().digest('hex') })
  }
  return ranges
}

async function update(
  hash: Hash,
  file: number,
  { start, end }: { start: number; end: number },
  throttle: UploadThrottle,
): Promise<void> {
  const buffer = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, end - start))
  for (let at = start; at < end; ) {
    const chunk = readChunk(file, buffer, at, end)
    hash.update(chunk)
    at += chunk.length
    if (at < end) await throttle.wait()
  }
}

/** Whether a line ends directly before `offset`. */
export function isLineStart(file: number, offset: number): boolean {
  if (offset === 0) return true
  const byte = Buffer.alloc(1)
  return readSync(file, byte, 0, 1, offset - 1) === 1 && byte[0] === NEWLINE
}

/** The bytes of the range. Fails if the file has become shorter. */
export async function* bytesOf(
  file: number,
  { start, end }: Range,
  throttle: UploadThrottle,
): AsyncGenerator<Buffer> {
  for (let at = start; at < end; ) {
    // A separate buffer: the stream may hold it longer than this turn.
    const chunk = readChunk(file, Buffer.allocUnsafe(CHUNK_BYTES), at, end)
    yield chunk
    at += chunk.length
    if (at < end) await throttle.wait()
  }
}

function readChunk(file: number, buffer: Buffer, at: number, stop: number): Buffer {
  const bytesRead = readSync(file, buffer, 0, Math.min(buffer.length, stop - at), at)
  if (bytesRead === 0) throw new Error(`the file ends at ${at}, ${stop - at} bytes short`)
  return buffer.subarray(0, bytesRead)
}
