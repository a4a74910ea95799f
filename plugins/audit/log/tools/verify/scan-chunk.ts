// Reads one chunk of a log: checks each line and computes its leaf hash. A chunk begins at the start of a line, so that
// several threads can read chunks of one file.

import { closeSync, openSync, readSync } from 'node:fs'
import { eachLine, MAX_LINE_BYTES, tooLong } from '../../files/lines.js'
import {
  type CheckedLine,
  checkLine,
  checkPlace,
  checkSignature,
  type LineContext,
  type LineFailure,
} from '../../format/check-line.js'
import type { Digest } from '../../format/digest.js'
import type { PlacedRange } from '../../format/journal-line.js'
import { objectIn } from '../../format/stored-record.js'
import { signatureIn } from '../../format/verifier.js'
import { LeafRange, type SubtreeRoot } from '../../merkle/leaf-range.js'
import { leafHashWithin } from '../../merkle/tree-hash.js'
import type { KeyHistory } from '../../tree/key-history.js'
import { scanLine } from './canonical-scan.js'
import { type NumberRun, RunCollector } from './sequences.js'
import { isOfVotes } from './vote-check.js'

export interface Chunk {
  readonly path: string
  readonly day: string
  /** Bytes `[start, end)` of the file. */
  readonly start: number
  readonly end: number
  /** Whether records are checked; leaf hashes are always computed. */
  readonly judged: boolean
  /** The sealed range whose bytes these are, as far as the file has them. */
  readonly range?: PlacedRange
  /** The leaf assumed for lines outside a range; undefined if it is not known. */
  readonly leaf?: number
}

export interface IndexedFailure extends LineFailure {
  /** Index in the chunk, counted from 0. */
  readonly index: number
}

export interface IndexedVote {
  readonly index: number
  readonly record: Readonly<Record<string, unknown>>
}

export interface ChunkResult {
  /** Number of records, including a last one without newline unless it is torn. */
  readonly lines: number
  /** Leaves of the lines that are not of a range. */
  readonly hashes: readonly Digest[]
  /** The subtrees of a range; undefined if it does not consist of exactly its lines. */
  readonly subtrees: readonly SubtreeRoot[] | undefined
  readonly failures: readonly IndexedFailure[]
  /** Votes whose lines are valid, and what belongs to them; what they state is still to be checked. */
  readonly votes: readonly IndexedVote[]
  /** Sequence numbers, if records are checked. */
  readonly runs: readonly NumberRun[]
  readonly lost: readonly NumberRun[]
  /** Whether a record names a log. */
  readonly namesLog: boolean
  /** Bytes of an incomplete last line. */
  readonly tornBytes: number
}

export interface ScanContext {
  readonly keys: KeyHistory
  /** The log's id as records have it; undefined for a log without an id. */
  readonly logId: string | undefined
}

/**
 * Scans the chunks on the current thread. Those that follow each other in a file are read at once: a system call for each
 * of many small ranges would cost more than the work on them.
 *
 * @throws what `openSync` and `readSync` throw, and {AuditError} `read_failed` for a line longer than any record.
 */
export function scanChunks(chunks: readonly Chunk[], context: ScanContext): ChunkResult[] {
  const results: ChunkResult[] = []
  for (let first = 0; first < chunks.length; ) {
    let after = first + 1
    while (chunks[after] !== undefined && follows(chunks[after], chunks[after - 1])) after++
    const group = chunks.slice(first, after)
    const bytes = bytesOf(group)
    const from = group[0]?.start ?? 0
    // The byte before a line is lent to `leafHashWithin`.
    for (const chunk of group)
      results.push(scanChunk(bytes.subarray(chunk.start - from, 1 + chunk.end - from), chunk, context))
    first = after
  }
  return results
}

function follows(chunk: Chunk | undefined, before: Chunk | undefined): boolean {
  return chunk?.path === before?.path && chunk?.start === before?.end
}

/** @param bytes those of the chunk that the file has, after one that is not of it. */
function scanChunk(bytes: Buffer, chunk: Chunk, { keys, logId }: ScanContext): ChunkResult {
  const { range, day } = chunk
  const leaves: Digest[] = []
  const tree = range && new LeafRange(range.leaf)
  const sequences = chunk.judged ? new RunCollector() : undefined
  const failures: IndexedFailure[] = []
  const votes: IndexedVote[] = []
  let namesLog = false
  let count = 0
  const take = (start: number, end: number) => {
    if (end - start > MAX_LINE_BYTES) throw tooLong(chunk.path)
    if (chunk.judged) {
      const index = range === undefined ? chunk.leaf : range.leaf + count
      const { failure, record } = checkRecord(bytes.subarray(start, end), { keys, logId, day }, index)
      namesLog ||= record?.['log_id'] !== undefined
      const isOwn = logId !== undefined && record?.['log_id'] === logId
      const misplaced = isOwn ? sequences?.addRecord(record) : undefined
      const first = failure ?? misplaced
      if (first !== undefined) failures.push({ index: count, ...first })
      else if (record !== undefined && isOfVotes(record)) votes.push({ index: count, record })
    }
    const leaf = leafHashWithin(bytes, start, end)
    if (tree === undefined) leaves.push(leaf)
    else tree.append(leaf)
    count++
  }
  const end = eachLine(bytes, 1, take)
  const isTorn = end < bytes.length && (range !== undefined || mayBeTorn(bytes.subarray(end)))
  const tornBytes = isTorn ? bytes.length - end : 0
  if (tornBytes > MAX_LINE_BYTES) throw tooLong(chunk.path)
  if (end < bytes.length && !isTorn) take(end, bytes.length)
  const { runs = [], lost = [] } = sequences?.finish() ?? {}
  const whole = count === range?.lines && tornBytes === 0 && bytes.length - 1 === range.end - range.start
  return {
    lines: count,
    hashes: leaves,
    subtrees: whole ? tree?.subtrees : undefined,
    failures,
    votes,
    runs,
    lost,
    namesLog,
    tornBytes,
  }
}

// One message is checked at a time. Allocating memory for each of millions would cost more than the copy.
let message = Buffer.allocUnsafeSlow(16_384)

/**
 * Same as `checkLine`, for which it leaves the lines that the scan does not know to be valid, and those of which more
 * members are needed.
 */
function checkRecord(line: Buffer, context: LineContext, leaf: number | undefined): CheckedLine {
  const scanned = scanLine(line)
  if (scanned === undefined || scanned.members.lost !== undefined || isOfVotes(scanned.members))
    return checkLine(line, context, leaf)
  const { members: record, signature } = scanned
  const sig = signatureIn(record.sig)
  if (message.length < line.length) message = Buffer.allocUnsafeSlow(2 * line.length)
  const [head, tail] = signature
  line.copy(message, 0, 0, head)
  line.copy(message, head, tail)
  const signed = message.subarray(0, head + line.length - tail)
  const isValid =
    sig !== undefined &&
    checkSignature(signed, sig, record, context, leaf) === undefined &&
    checkPlace(record, context) === undefined
  return isValid ? { record } : checkLine(line, context, leaf)
}

/** A writer that dies leaves the start of a line. A complete record with more bytes was edited instead. */
function mayBeTorn(tail: Buffer): boolean {
  return objectIn(tail.subarray(0, -1)) === undefined
}

// One group is scanned at a time; memory that is used again costs no page errors.
let space = Buffer.allocUnsafeSlow(0)
const MAX_SPACE = 8_388_608

/** The available bytes of chunks that follow each other, after a spare one. */
function bytesOf(chunks: readonly Chunk[]): Buffer {
  const { path = '', start = 0 } = chunks[0] ?? {}
  const length = 1 + (chunks.at(-1)?.end ?? 0) - start
  if (space.length < length && length <= MAX_SPACE) {
    space = Buffer.allocUnsafeSlow(Math.min(MAX_SPACE, 2 * length))
  }
  const bytes = length > MAX_SPACE ? Buffer.allocUnsafe(length) : space
  const fd = openSync(path, 'r')
  try {
    let filled = 1
    while (filled < length) {
      const got = readSync(fd, bytes, filled, length - filled, start + filled - 1)
      // A writer with a full disk has truncated its batch. Checkpoints detect missing sealed lines.
      if (got === 0) break
      filled += got
    }
    return bytes.subarray(0, filled)
  } finally {
    closeSync(fd)
  }
}
