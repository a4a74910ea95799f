// Splits bytes and files into lines, in constant memory. A last line without newline is marked: a writer that died may have
// left it.

import { closeSync, openSync, readSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { AuditError } from '../format/errors.js'

const CHUNK_BYTES = 262_144
const SEARCHED_BYTES = 65_536
const NEWLINE = 0x0a
/** Maximum length of a record; longer runs of bytes without newline are not kept in memory. */
export const MAX_LINE_BYTES = 67_108_864

/**
 * Calls `take` with the bounds of each whole line of `bytes` from `from` on, without its newline, until it returns false.
 *
 * @param scanned bytes before it have no newline.
 * @returns the offset after the last line that was taken.
 */
export function eachLine(
  bytes: Buffer,
  from: number,
  take: (start: number, end: number) => unknown,
  scanned = from,
): number {
  let start = from
  for (let end = bytes.indexOf(NEWLINE, scanned); end >= 0; end = bytes.indexOf(NEWLINE, start)) {
    const line = start
    start = end + 1
    if (take(line, end) === false) break
  }
  return start
}

/** The whole lines of `bytes`. */
export function linesIn(bytes: Buffer): Buffer[] {
  const lines: Buffer[] = []
  eachLine(bytes, 0, (start, end) => lines.push(bytes.subarray(start, end)))
  return lines
}

export interface Line {
  /** Counted from 1. */
  readonly number: number
  /** Byte of the file at which it begins, and the one after its newline. */
  readonly start: number
  readonly end: number
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
    const blocks = new LineBlocks(path, { from })
    for (;;) {
      const { bytesRead } = await handle.read(...blocks.space())
      if (bytesRead === 0) break
      const lines = blocks.take(bytesRead)
      if (lines.length > 0) yield lines
    }
    const last = blocks.rest()
    if (last !== undefined) yield [last]
  } finally {
    await handle.close()
  }
}

interface LineRange {
  readonly from: number
  readonly to?: number
  /** Bytes that are read at once, unless a line is longer. */
  readonly chunkBytes?: number
}

/** Splits the chunks of a file, which its owner reads one after the other. */
export class LineBlocks {
  readonly #path: string
  readonly #to: number
  #buffer: Buffer
  /** Bytes in the buffer that are not of a whole line yet, and the byte of the file at which they begin. */
  #kept = 0
  #offset: number
  /** Where they begin in the buffer. They are moved when the next chunk is read: until then the lines before are valid. */
  #first = 0
  #number = 0

  constructor(path: string, { from, to = Number.POSITIVE_INFINITY, chunkBytes = CHUNK_BYTES }: LineRange) {
    this.#path = path
    this.#to = to
    this.#offset = from
    this.#buffer = Buffer.allocUnsafe(Math.min(chunkBytes, Math.max(to - from, 1)))
  }

  /** The place for the next chunk, as the arguments of `read`. Lines that were taken before are not valid any more. */
  space(): [buffer: Buffer, offset: number, length: number, position: number] {
    this.#buffer.copy(this.#buffer, 0, this.#first, this.#first + this.#kept)
    this.#first = 0
    const position = this.#offset + this.#kept
    const isFull = this.#kept === this.#buffer.length && position < this.#to
    if (isFull && this.#kept >= MAX_LINE_BYTES) throw tooLong(this.#path)
    if (isFull) this.#buffer = Buffer.concat([this.#buffer], 2 * this.#kept)
    const length = Math.min(this.#buffer.length - this.#kept, this.#to - position)
    return [this.#buffer, this.#kept, length, position]
  }

  /** The whole lines that `got` more bytes end. */
  take(got: number): Line[] {
    const [buffer, scanned, offset] = [this.#buffer, this.#kept, this.#offset]
    const filled = scanned + got
    const lines: Line[] = []
    const read = buffer.subarray(0, filled)
    const each = (start: number, end: number) => {
      lines.push({
        number: ++this.#number,
        start: offset + start,
        end: offset + end + 1,
        bytes: read.subarray(start, end),
        complete: true,
      })
    }
    const taken = eachLine(read, 0, each, scanned)
    this.#kept = filled - taken
    this.#first = taken
    this.#offset += taken
    return lines
  }

  /** The last line, if it has no newline. */
  rest(): Line | undefined {
    if (this.#kept === 0) return undefined
    const end = this.#offset + this.#kept
    const bytes = this.#buffer.subarray(this.#first, this.#first + this.#kept)
    return { number: this.#number + 1, start: this.#offset, end, bytes, complete: false }
  }
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
      eachLine(buffer.subarray(0, got), 0, () => lines++)
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
    const buffer = Buffer.allocUnsafe(SEARCHED_BYTES)
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
