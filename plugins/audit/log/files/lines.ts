// The lines of a file in constant memory, with their numbers. A last line without newline is marked: a writer that
// died may have left it.

import { closeSync, openSync, readSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { AuditError } from '../format/errors.js'

const CHUNK_BYTES = 262_144
const NEWLINE = 0x0a
/** Maximum length of a record; longer runs of bytes without newline are not kept in memory. */
export const MAX_LINE_BYTES = 67_108_864

export interface Line {
  /** Counted from 1. */
  readonly number: number
  /** Without the newline. Valid until the next line is requested. */
  readonly bytes: Buffer
  /** False for a last line without newline. */
  readonly complete: boolean
}

/**
 * The lines from the byte `from` on, which need not be the start of a line.
 *
 * @throws what `open` and `read` throw, and {AuditError} `read_failed` for a line over `MAX_LINE_BYTES`.
 */
export async function* linesOf(path: string, from = 0): AsyncGenerator<Line, void, void> {
  for await (const lines of lineBlocksOf(path, from)) yield* lines
}

/**
 * The same lines in blocks: a step of an asynchronous generator for each line would cost more than the work on it.
 * A block is valid until the next one is requested.
 */
export async function* lineBlocksOf(path: string, from = 0): AsyncGenerator<readonly Line[], void, void> {
  const handle = await open(path, 'r')
  try {
    yield* split(handle, from, path)
  } finally {
    await handle.close()
  }
}

async function* split(
  handle: FileHandle,
  from: number,
  path: string,
): AsyncGenerator<readonly Line[], void, void> {
  let buffer = Buffer.allocUnsafe(CHUNK_BYTES)
  let filled = 0
  let number = 0
  let position = from
  for (;;) {
    if (filled === buffer.length) {
      if (buffer.length >= MAX_LINE_BYTES) throw tooLong(path)
      const larger = Buffer.allocUnsafe(buffer.length * 2)
      buffer.copy(larger, 0, 0, filled)
      buffer = larger
    }
    const { bytesRead } = await handle.read(buffer, filled, buffer.length - filled, position)
    if (bytesRead === 0) break
    position += bytesRead
    const scanned = filled
    filled += bytesRead
    const read = buffer.subarray(0, filled)
    const lines: Line[] = []
    let start = 0
    for (let end = read.indexOf(NEWLINE, scanned); end >= 0; end = read.indexOf(NEWLINE, start)) {
      lines.push({ number: ++number, bytes: read.subarray(start, end), complete: true })
      start = end + 1
    }
    if (lines.length > 0) yield lines
    buffer.copy(buffer, 0, start, filled)
    filled -= start
  }
  if (filled > 0) yield [{ number: ++number, bytes: buffer.subarray(0, filled), complete: false }]
}

export function tooLong(path: string): AuditError {
  return new AuditError('read_failed', `a line of ${path} is longer than any record`)
}

/** Number of newlines in the bytes `[from, to)`. */
export function countLines(path: string, from: number, to: number): number {
  const fd = openSync(path, 'r')
  try {
    const buffer = Buffer.allocUnsafe(CHUNK_BYTES)
    let lines = 0
    for (let position = from; position < to; ) {
      const got = readSync(fd, buffer, 0, Math.min(CHUNK_BYTES, to - position), position)
      if (got === 0) break
      const filled = buffer.subarray(0, got)
      for (let at = filled.indexOf(NEWLINE); at >= 0; at = filled.indexOf(NEWLINE, at + 1)) lines++
      position += got
    }
    return lines
  } finally {
    closeSync(fd)
  }
}

/** The offset of the first line that begins in `[from, to)`; `to` if there is none. A line begins at 0. */
export function lineStartFrom(path: string, from: number, to: number): number {
  if (from === 0 || from >= to) return from
  const fd = openSync(path, 'r')
  try {
    const buffer = Buffer.allocUnsafe(65_536)
    for (let position = from - 1; position < to; ) {
      const got = readSync(fd, buffer, 0, Math.min(buffer.length, to - position), position)
      const newline = buffer.subarray(0, got).indexOf(NEWLINE)
      if (newline >= 0) return position + newline + 1
      if (got === 0) break
      position += got
      if (position - from > MAX_LINE_BYTES) throw tooLong(path)
    }
    return to
  } finally {
    closeSync(fd)
  }
}
