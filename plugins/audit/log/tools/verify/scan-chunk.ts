// Reads one chunk of a log: checks each line and computes its leaf hash. Several threads can read chunks of one
// file, because a chunk owns the lines that begin in it.

import { closeSync, openSync } from 'node:fs'
import { MAX_LINE_BYTES, tooLong } from '../../files/lines.js'
import { ReadAhead } from '../../files/read-ahead.js'
import { objectIn } from '../../format/stored-record.js'
import { LeafRange } from '../../merkle/leaf-range.js'
import { type Digest, leafHashWithin } from '../../merkle/tree-hash.js'
import { checkLine, type LineFailure } from './check-line.js'
import { type Run, RunCollector } from './sequences.js'
import type { TrustedKeys } from './trusted-keys.js'

const NEWLINE = 0x0a
const MORE_BYTES = 65_536

export interface Chunk {
  readonly path: string
  readonly day: string
  /** First byte; of a line, where the chunk is a range. Else the chunk owns the lines that begin in `[start, end)`. */
  readonly start: number
  readonly end: number
  /** Size of the file when verification began. */
  readonly size: number
  /** Whether records are checked; leaf hashes are always computed. */
  readonly judged: boolean
  /** The leaf of the first line, where the chunk is a sealed range. */
  readonly range?: { readonly leaf: number; readonly lines: number }
  /** The leaf that lines outside a range are taken for; undefined where it is not known. */
  readonly leaf?: number
}

export interface IndexedFailure extends LineFailure {
  /** Index in the chunk, counted from 0. */
  readonly index: number
}

export interface ChunkResult {
  /** Number of records, including a last one without newline unless it is torn. */
  readonly lines: number
  /** Of each line; of a range, those of its aligned subtrees. */
  readonly hashes: readonly Digest[]
  /** Whether a range consists of exactly its lines. */
  readonly whole: boolean
  readonly failures: readonly IndexedFailure[]
  /** Sequence numbers, where records are checked. */
  readonly runs: readonly Run[]
  readonly lost: readonly Run[]
  /** Whether a record names a log. */
  readonly namesLog: boolean
  /** Bytes of an incomplete last line. */
  readonly tornBytes: number
}

export interface ScanContext {
  readonly keys: TrustedKeys
  /** As records name the log; undefined for a log without an id. */
  readonly logId: string | undefined
}

/**
 * Scans the chunks on the current thread. The last file stays open, because the chunks of a job are often of one file.
 *
 * @throws what `openSync` and `readSync` throw, and {AuditError} `read_failed` for a line longer than any record.
 */
export function scanChunks(chunks: readonly Chunk[], context: ScanContext): ChunkResult[] {
  let open: { readonly path: string; readonly fd: number; readonly file: ReadAhead } | undefined
  try {
    return chunks.map((chunk) => {
      const { path } = chunk
      if (open?.path !== path) {
        const previous = open
        open = undefined
        if (previous !== undefined) closeSync(previous.fd)
        const fd = openSync(path, 'r')
        open = { path, fd, file: new ReadAhead(fd) }
      }
      return scanChunk(open.file, chunk, context)
    })
  } finally {
    if (open !== undefined) closeSync(open.fd)
  }
}

function scanChunk(file: ReadAhead, chunk: Chunk, context: ScanContext): ChunkResult {
  const lines = new ChunkLines(file, chunk)
  const { range } = chunk
  const leaves: Digest[] = []
  const tree = range && new LeafRange(range.leaf)
  const sequences = new RunCollector()
  const failures: IndexedFailure[] = []
  const lineContext = { keys: context.keys, logId: context.logId, day: chunk.day }
  let namesLog = false
  let tornBytes = 0
  let count = 0
  let last = chunk.start
  for (let line = lines.next(); line !== undefined; line = lines.next()) {
    const { start, end, complete } = line
    if (!complete && (range !== undefined || mayBeTorn(lines.buffer.subarray(start, end)))) {
      tornBytes = end - start
      break
    }
    if (chunk.judged) {
      const bytes = lines.buffer.subarray(start, end)
      const index = range === undefined ? chunk.leaf : range.leaf + count
      const { failure, record } = checkLine(bytes, lineContext, index)
      namesLog ||= record?.['log_id'] !== undefined
      const isOwn = context.logId !== undefined && record?.['log_id'] === context.logId
      const fault = isOwn ? sequences.addRecord(record) : undefined
      const first = failure ?? fault
      if (first !== undefined) failures.push({ index: count, ...first })
    }
    const leaf = leafHashWithin(lines.buffer, start, end)
    if (tree === undefined) leaves.push(leaf)
    else tree.append(leaf)
    count++
    last = line.next
  }
  const { runs, lost } = sequences.finish()
  const whole = range !== undefined && count === range.lines && last === chunk.end
  const hashes = tree === undefined ? leaves : tree.subtrees.map(({ root }) => root)
  return { lines: count, hashes, whole, failures, runs, lost, namesLog, tornBytes }
}

/** A writer that dies leaves the start of a line. A complete record with more bytes was edited instead. */
function mayBeTorn(tail: Buffer): boolean {
  return objectIn(tail.subarray(0, -1)) === undefined
}

// One chunk is scanned at a time; memory that is used again costs no page faults.
let space = Buffer.allocUnsafeSlow(0)
const MAX_SPACE = 8_388_608

function spaceFor(length: number): Buffer {
  if (length > MAX_SPACE) return Buffer.allocUnsafe(length)
  if (space.length < length) space = Buffer.allocUnsafeSlow(Math.min(MAX_SPACE, 2 * length))
  return space.subarray(0, length)
}

/** The lines of a chunk, in a buffer whose first byte is spare, as `leafHashWithin` requires. */
class ChunkLines {
  buffer: Buffer
  readonly #file: ReadAhead
  readonly #chunk: Chunk
  /** File offset of `buffer[1]`. */
  readonly #base: number
  /** Known size of the file. */
  #size: number
  #filled = 1
  #at: number

  constructor(file: ReadAhead, chunk: Chunk) {
    this.#file = file
    this.#chunk = chunk
    this.#size = chunk.size
    // Outside a range, a line begins after a newline.
    const isLineStart = chunk.start === 0 || chunk.range !== undefined
    this.#base = isLineStart ? chunk.start : chunk.start - 1
    this.buffer = spaceFor(1 + chunk.end - this.#base)
    this.#read()
    const newline = isLineStart ? 0 : this.#newlineFrom(1)
    this.#at = newline < 0 ? Number.POSITIVE_INFINITY : newline + 1
  }

  next(): { start: number; end: number; complete: boolean; next: number } | undefined {
    const start = this.#at
    const position = this.#base + start - 1
    if (position >= this.#chunk.end || position >= this.#size) return undefined
    let end = this.#newlineFrom(start)
    for (let seen = this.#filled; end < 0 && this.#more(); seen = this.#filled) end = this.#newlineFrom(seen)
    const complete = end >= 0
    if (!complete) end = this.#filled
    this.#at = end + 1
    return { start, end, complete, next: this.#base + end }
  }

  #newlineFrom(start: number): number {
    const at = this.buffer.indexOf(NEWLINE, start)
    return at < this.#filled ? at : -1
  }

  /** Reads beyond the chunk to the end of its last line; false at the end of the file. */
  #more(): boolean {
    if (this.#base + this.#filled - 1 >= this.#size) return false
    if (this.buffer.length > MAX_LINE_BYTES) throw tooLong(this.#chunk.path)
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
      const got = this.#file.read(this.buffer, this.#filled, wanted - this.#filled, position)
      if (got === 0) {
        // A writer with a full disk has truncated its batch. Checkpoints detect missing sealed lines.
        this.#size = position
        return
      }
      this.#filled += got
    }
  }
}
