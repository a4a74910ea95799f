// Reads one chunk of a log: checks each line and computes its leaf hash. Several threads can read chunks of one
// file, because a chunk owns the lines that begin in it.

import { readSync } from 'node:fs'
import { MAX_LINE_BYTES } from '../files/lines.js'
import { objectIn } from '../format/stored-record.js'
import type { Verifier } from '../keys/public-key.js'
import { DIGEST_BYTES, leafHashWithin } from '../merkle/tree-hash.js'
import { checkLine, type LineFailure } from './check-line.js'

const NEWLINE = 0x0a
const MORE_BYTES = 65_536

export interface Chunk {
  readonly path: string
  readonly day: string
  /** The chunk owns the lines that begin in `[start, end)`. */
  readonly start: number
  readonly end: number
  /** Size of the file when verification began. */
  readonly size: number
  /** Whether records are checked; leaf hashes are always computed. */
  readonly judged: boolean
}

interface IndexedFailure extends LineFailure {
  /** Index in the chunk, counted from 0. */
  readonly index: number
}

export interface ChunkResult {
  /** Number of records, including a last one without newline unless it is torn. */
  readonly lines: number
  /** The leaf hashes, 32 bytes a line. */
  readonly leaves: Uint8Array
  readonly failures: readonly IndexedFailure[]
  /** Bytes of an incomplete last line. */
  readonly tornBytes: number
}

/** @throws what `readSync` throws, and RangeError for a line longer than any record. */
export function scanChunk(fd: number, chunk: Chunk, keys: ReadonlyMap<string, Verifier>): ChunkResult {
  const lines = new ChunkLines(fd, chunk)
  const leaves: Buffer[] = []
  let block = Buffer.allocUnsafeSlow(DIGEST_BYTES * 1024)
  let filled = 0
  let count = 0
  let tornBytes = 0
  const failures: IndexedFailure[] = []
  for (let line = lines.next(); line !== undefined; line = lines.next()) {
    const { start, end, complete } = line
    const bytes = lines.buffer.subarray(start, end)
    if (!complete && mayBeTorn(bytes)) {
      tornBytes = bytes.length
      break
    }
    if (chunk.judged) {
      const failure = checkLine(bytes, chunk.day, keys)
      if (failure !== undefined) failures.push({ index: count, ...failure })
    }
    if (filled === block.length) {
      leaves.push(block)
      block = Buffer.allocUnsafeSlow(block.length)
      filled = 0
    }
    filled += block.write(leafHashWithin(lines.buffer, start, end), filled, 'binary')
    count++
  }
  leaves.push(block.subarray(0, filled))
  return { lines: count, leaves: new Uint8Array(Buffer.concat(leaves)), failures, tornBytes }
}

/** A writer that dies leaves the start of a line. A complete record with more bytes was edited instead. */
function mayBeTorn(tail: Buffer): boolean {
  return objectIn(tail.subarray(0, -1)) === undefined
}

/** The lines of a chunk, in a buffer whose first byte is spare, as `leafHashWithin` requires. */
class ChunkLines {
  buffer: Buffer
  readonly #fd: number
  readonly #chunk: Chunk
  /** File offset of `buffer[1]`. */
  readonly #base: number
  /** Known size of the file. */
  #size: number
  #filled = 1
  #at: number

  constructor(fd: number, chunk: Chunk) {
    this.#fd = fd
    this.#chunk = chunk
    this.#size = chunk.size
    // A line begins after a newline.
    this.#base = Math.max(0, chunk.start - 1)
    this.buffer = Buffer.allocUnsafe(1 + chunk.end - this.#base)
    this.#read()
    const newline = chunk.start === 0 ? 0 : this.#newlineFrom(1)
    this.#at = newline < 0 ? Number.POSITIVE_INFINITY : newline + 1
  }

  next(): { start: number; end: number; complete: boolean } | undefined {
    const start = this.#at
    const position = this.#base + start - 1
    if (position >= this.#chunk.end || position >= this.#size) return undefined
    let end = this.#newlineFrom(start)
    for (let seen = this.#filled; end < 0 && this.#more(); seen = this.#filled) end = this.#newlineFrom(seen)
    const complete = end >= 0
    if (!complete) end = this.#filled
    this.#at = end + 1
    return { start, end, complete }
  }

  #newlineFrom(start: number): number {
    const at = this.buffer.indexOf(NEWLINE, start)
    return at < this.#filled ? at : -1
  }

  /** Reads beyond the chunk to the end of its last line; false at the end of the file. */
  #more(): boolean {
    if (this.#base + this.#filled - 1 >= this.#size) return false
    if (this.buffer.length > MAX_LINE_BYTES) throw new RangeError('a line is longer than any record')
    const larger = Buffer.allocUnsafe(this.buffer.length + Math.max(MORE_BYTES, this.buffer.length >> 1))
    this.buffer.copy(larger, 0, 0, this.#filled)
    this.buffer = larger
    this.#read()
    return true
  }

  #read(): void {
    const wanted = Math.min(this.buffer.length, this.#size - this.#base + 1)
    while (this.#filled < wanted) {
      const position = this.#base + this.#filled - 1
      const got = readSync(this.#fd, this.buffer, this.#filled, wanted - this.#filled, position)
      if (got === 0) {
        // A writer with a full disk has truncated its batch. Checkpoints detect missing sealed lines.
        this.#size = position
        return
      }
      this.#filled += got
    }
  }
}
