// Reads one part of a log: judges each line and takes its leaf hash. Parts of one file can be read by
// several threads, since a part's lines are those that begin in it.

import { readSync } from 'node:fs'
import { MAX_LINE_BYTES } from '../files/lines.js'
import { objectOf, textOf } from '../format/stored-record.js'
import type { Verifier } from '../keys/public-key.js'
import { DIGEST_BYTES, leafHashWithin } from '../merkle/tree-hash.js'
import { type Flaw, flawOf } from './check-line.js'

const NEWLINE = 0x0a
const MORE_BYTES = 65_536

export interface Chunk {
  readonly path: string
  readonly day: string
  /** The lines that begin in `[start, end)` are the chunk's. */
  readonly start: number
  readonly end: number
  /** Of the file, when verification began. */
  readonly size: number
  /** Whether records are judged; their leaf hashes are taken in any case. */
  readonly judged: boolean
}

interface LineFlaw extends Flaw {
  /** Within the chunk, counted from 0. */
  readonly index: number
}

export interface ChunkResult {
  /** Records, the last one of the file without its newline included unless it is torn. */
  readonly lines: number
  /** The leaf hashes, 32 bytes a line. */
  readonly leaves: Uint8Array
  readonly flaws: readonly LineFlaw[]
  /** Bytes after the last newline of the file that a dying writer may have left. */
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
  const flaws: LineFlaw[] = []
  for (let line = lines.next(); line !== undefined; line = lines.next()) {
    const { start, end, complete } = line
    const bytes = lines.buffer.subarray(start, end)
    if (!complete && mayBeTorn(bytes)) {
      tornBytes = bytes.length
      break
    }
    if (chunk.judged) {
      const flaw = flawOf(bytes, chunk.day, keys)
      if (flaw !== undefined) flaws.push({ index: count, ...flaw })
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
  return { lines: count, leaves: new Uint8Array(Buffer.concat(leaves)), flaws, tornBytes }
}

/** A writer that dies leaves the beginning of a line. A whole record and more was edited instead. */
function mayBeTorn(tail: Buffer): boolean {
  return objectOf(textOf(tail.subarray(0, -1)) ?? '') === undefined
}

/** The lines of a chunk, in a buffer whose first byte is spare, as `leafHashWithin` wants it. */
class ChunkLines {
  buffer: Buffer
  readonly #fd: number
  readonly #chunk: Chunk
  /** Where `buffer[1]` lies in the file. */
  readonly #base: number
  /** Of the file, as far as is known. */
  #size: number
  #filled = 1
  #at: number

  constructor(fd: number, chunk: Chunk) {
    this.#fd = fd
    this.#chunk = chunk
    this.#size = chunk.size
    // A line begins where the byte before is a newline.
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

  /** Reads on past the chunk, for the end of its last line; false at the end of the file. */
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
        // A writer that met a full disk has cut its batch back. What was sealed is missed by its checkpoints.
        this.#size = position
        return
      }
      this.#filled += got
    }
  }
}
