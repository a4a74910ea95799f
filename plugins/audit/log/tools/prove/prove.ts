// Creates inclusion proofs of records from the files of the tree, without reading the log's other records again.

import { join } from 'node:path'
import { defined } from '@svc/core/json'
import { dailyFiles } from '../../files/daily-files.js'
import { nodeFileSystem } from '../../files/file-system.js'
import { countLines, lineBlocksOf } from '../../files/lines.js'
import type { Head } from '../../format/checkpoint.js'
import type { Digest } from '../../format/digest.js'
import { AuditError } from '../../format/errors.js'
import { parseJournalLine } from '../../format/journal-codec.js'
import { type JournalLine, type PlacedRange, sealedRanges } from '../../format/journal-line.js'
import { inclusionRanges, type LeafSpan } from '../../format/merkle-proof.js'
import { isVerified, type Note } from '../../format/note.js'
import { dailyLog, JOURNAL_FILE } from '../../format/paths.js'
import { proofText } from '../../format/proof-text.js'
import { leafHash, verifyInclusion } from '../../merkle/tree-hash.js'
import { newestCheckpoint, type StoredCheckpoint } from '../../tree/checkpoint-file.js'
import { readGenesis } from '../../tree/journal-file.js'
import type { KeyHistory } from '../../tree/key-history.js'
import { rootsOf } from '../../tree/tree-store.js'
import { compileFilter, type LogFilter } from '../read/filter.js'
import { recordLines } from '../read/records.js'
import { factsOfLog } from '../verify/journal-facts.js'

const MAX_LISTED_MATCHES = 10

export interface RecordIds {
  readonly traceId: string
  /** Required if several records have the trace id. */
  readonly spanId?: string
}

export interface Match extends LinePosition {
  /** The stored line, without its newline. */
  readonly record: Buffer
  readonly spanId: string
}

/**
 * The proof, based on the newest checkpoint, that the log in `dir` contains the record: a text that can be checked
 * without the log.
 *
 * @throws {AuditError} `not_found`; `ambiguous`, listing the matches; `not_sealed`; `log_unlinked` if the log does
 * not match its checkpoint; `read_failed`.
 */
export async function proveRecord(dir: string, { traceId, spanId }: RecordIds): Promise<string> {
  const matches = await find(dir, { traceId, ...defined({ spanId }) })
  const [first] = matches
  const sought = `trace id ${traceId}${spanId === undefined ? '' : ` and span id ${spanId}`}`
  if (first === undefined) throw new AuditError('not_found', `no record has the ${sought}`)
  // If a record was appended twice, its first position is proven.
  if (matches.every((match) => match.record.equals(first.record))) return prove(dir, [first])
  const named = matches
    .slice(0, MAX_LISTED_MATCHES)
    .map(({ day, line, spanId }) => `${dailyLog(day)}:${line} ${spanId}`)
  const more = matches.length > named.length ? `, and ${matches.length - named.length} more` : ''
  throw new AuditError(
    'ambiguous',
    `${matches.length} records have the ${sought}; choose one by its span id: ${named.join(', ')}${more}`,
  )
}

/**
 * The proofs of all records that match the filter, one after the other in one text.
 *
 * @throws {AuditError} as `proveRecord`; `bad_timestamp` if a filter's bound is not an instant.
 */
export async function proveRecords(dir: string, filter: LogFilter): Promise<string> {
  const matches = await find(dir, filter)
  if (matches.length === 0) throw new AuditError('not_found', 'no record matches')
  return prove(dir, matches)
}

async function prove(dir: string, matches: readonly Match[]): Promise<string> {
  const prover = await Prover.open(dir)
  const leaves = await leavesOf(dir, matches)
  return matches.map((match, at) => prover.proofOf(match, leaves[at])).join('')
}

// Proofs of neighbours share most of their hashes.
const MAX_KNOWN_ROOTS = 100_000

/** Makes proofs that are based on the newest checkpoint which a key of the log has signed: not on a forged one after it. */
export class Prover {
  readonly #roots = new Map<string, Digest>()

  private constructor(
    readonly dir: string,
    readonly newest: StoredCheckpoint,
  ) {}

  /**
   * @param known the keys of the log; without them, the journal is read for them.
   * @throws {AuditError} `not_sealed`
   */
  static async open(dir: string, known?: KeyHistory): Promise<Prover> {
    const genesis = readGenesis(nodeFileSystem, dir)
    const keys = known ?? (await factsOfLog(dir))?.keys
    const isSigned = (note: Note, head: Head) =>
      isVerified(note, head.origin, keys?.allAt(head.size - 1) ?? [])
    const newest = genesis && newestCheckpoint(nodeFileSystem, dir, genesis.origin, isSigned)
    if (newest !== undefined) return new Prover(dir, newest)
    throw new AuditError('not_sealed', `the log at ${dir} has no checkpoint`)
  }

  /** Leaves that the checkpoint covers. */
  get size(): number {
    return this.newest.head.size
  }

  get noteBytes(): number {
    return this.newest.signed.length
  }

  /** The leaf of each record that the checkpoint covers; undefined for others. */
  async leavesOf(matches: readonly Match[]): Promise<(number | undefined)[]> {
    const leaves = await leavesOf(this.dir, matches)
    return leaves.map((leaf) => (leaf === undefined || leaf >= this.size ? undefined : leaf))
  }

  /** @throws {AuditError} `not_sealed`, `log_unlinked`, `read_failed`. */
  proofOf({ day, line, record }: Match, index: number | undefined): string {
    const { head, signed } = this.newest
    const name = `${dailyLog(day)}:${line}`
    if (index === undefined || index >= head.size) {
      throw new AuditError('not_sealed', `${name} is not sealed yet: try again after the next checkpoint`)
    }
    const path = inclusionRanges(index, head.size).map((span) => this.#rootOf(span))
    if (!verifyInclusion(leafHash(record), { index, size: head.size }, path, head.root)) {
      throw new AuditError(
        'log_unlinked',
        `${name} does not lead to the newest checkpoint; npx svc-sdk audit verify shows why`,
      )
    }
    return proofText({ record, index, path, checkpoint: signed })
  }

  /** The proof of a leaf that the checkpoint covers, whether the record leads to it or not. */
  uncheckedProof(record: Uint8Array, index: number): string {
    const { head, signed } = this.newest
    const path = inclusionRanges(index, head.size).map((span) => this.#rootOf(span))
    return proofText({ record, index, path, checkpoint: signed })
  }

  #rootOf(span: LeafSpan): Digest {
    const key = `${span.start} ${span.end}`
    const known = this.#roots.get(key)
    if (known !== undefined) return known
    const [root = ''] = rootsOf(nodeFileSystem, this.dir, [span])
    if (this.#roots.size >= MAX_KNOWN_ROOTS) this.#roots.clear()
    this.#roots.set(key, root)
    return root
  }
}

async function find(dir: string, filter: LogFilter): Promise<Match[]> {
  const matches: Match[] = []
  const limit = filter.limit ?? Number.POSITIVE_INFINITY
  for await (const match of matchingLines(dir, filter)) {
    if (matches.length >= limit) break
    matches.push(match)
  }
  return matches
}

/** The records of the log that match, in written order; lines that are not records are left out. */
export async function* matchingLines(
  dir: string,
  filter: LogFilter,
  mayMatch: (line: Buffer) => boolean = (line) =>
    filter.traceId === undefined || line.includes(filter.traceId),
): AsyncGenerator<Match, void, void> {
  const compiled = compileFilter(filter)
  for (const file of await dailyFiles(dir)) {
    if (!compiled.day(file.day)) continue
    for await (const { record, bytes, ...place } of recordLines(dir, file, { mayMatch })) {
      if (record === undefined || !compiled.record(record)) continue
      const { day, number: line, start: offset } = place
      yield { day, line, offset, record: Buffer.from(bytes), spanId: record.span_id }
    }
  }
}

// More days than this are found faster by parsing every line.
const MAX_SOUGHT_DAYS = 4

interface LinePosition {
  readonly day: string
  /** Line of the day's file, counted from 1. */
  readonly line: number
  /** Byte of the file at which it begins. */
  readonly offset: number
}

/** A sealed range of a day's file. */
interface NumberedRange extends PlacedRange {
  /** Lines of the file before it. */
  readonly linesBefore: number
}

/** The leaf of each place; undefined if it is not sealed. Reads the journal once. */
async function leavesOf(dir: string, places: readonly LinePosition[]): Promise<(number | undefined)[]> {
  const ranges = await rangesOf(dir, new Set(places.map(({ day }) => day)))
  return places.map(({ day, line, offset }) => {
    const range = rangeAt(ranges.get(day) ?? [], offset)
    return range && range.leaf + line - 1 - range.linesBefore
  })
}

/** The sealed ranges of the days, in the order of their bytes. */
async function rangesOf(
  dir: string,
  days: ReadonlySet<string>,
): Promise<ReadonlyMap<string, readonly NumberedRange[]>> {
  const found = new Map([...days].map((day) => [day, [] as NumberedRange[]]))
  const names = [...days].map((day) => Buffer.from(`"${day}"`))
  const mayNeed = (line: Buffer) =>
    names.length > MAX_SOUGHT_DAYS || names.some((name) => line.includes(name))
  for await (const line of parsedLines(dir, mayNeed)) {
    for (const range of sealedRanges(line)) {
      const known = found.get(range.day)
      const { linesBefore = 0, lines = 0 } = known?.at(-1) ?? {}
      known?.push({ ...range, linesBefore: linesBefore + lines })
    }
    const known = line.kind === 'fault' ? found.get(line.day) : undefined
    if (line.kind !== 'fault' || known === undefined) continue
    // Sealing has gone on at an earlier byte.
    const kept = known.filter(({ start }) => start < line.resume)
    const last = kept.pop()
    if (last !== undefined) {
      const end = Math.min(last.end, line.resume)
      kept.push({ ...last, end, lines: countLines(join(dir, dailyLog(line.day)), last.start, end) })
    }
    found.set(line.day, kept)
  }
  return found
}

/** The lines of the journal that are of interest; others are not parsed. */
async function* parsedLines(
  dir: string,
  isWanted: (line: Buffer) => boolean,
): AsyncGenerator<JournalLine, void, void> {
  for await (const lines of lineBlocksOf(join(dir, JOURNAL_FILE))) {
    for (const { bytes, complete } of lines) {
      const line = complete && isWanted(bytes) ? parseJournalLine(bytes) : undefined
      if (line !== undefined) yield line
    }
  }
}

function rangeAt(ranges: readonly NumberedRange[], offset: number): NumberedRange | undefined {
  let [low, high] = [0, ranges.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((ranges[middle]?.end ?? 0) <= offset) low = middle + 1
    else high = middle
  }
  const range = ranges[low]
  return range !== undefined && range.start <= offset ? range : undefined
}
