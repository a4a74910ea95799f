// Creates inclusion proofs of records from the files of the tree, without reading the log's other records again.

import { join } from 'node:path'
import { defined } from '@svc/core/json'
import { dailyFiles } from '../../files/daily-files.js'
import { nodeFileSystem } from '../../files/file-system.js'
import { lineBlocksOf } from '../../files/lines.js'
import type { Head } from '../../format/checkpoint.js'
import type { Digest } from '../../format/digest.js'
import { AuditError } from '../../format/errors.js'
import { parseJournalLine } from '../../format/journal-codec.js'
import { inclusionRanges, type LeafSpan } from '../../format/merkle-proof.js'
import { isVerified, type Note } from '../../format/note.js'
import { dailyLog, JOURNAL_FILE } from '../../format/paths.js'
import { proofText } from '../../format/proof-text.js'
import { type PlacedRange, sealedRanges } from '../../format/seal-ranges.js'
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
const MAX_STARTS = 4

interface LinePosition {
  readonly day: string
  /** Line of the day's file, counted from 1. */
  readonly line: number
  /** Byte of the file at which it begins. */
  readonly offset: number
}

/** The leaf of each place; undefined if it is not sealed. Reads the journal once, and no further than needed. */
async function leavesOf(dir: string, places: readonly LinePosition[]): Promise<(number | undefined)[]> {
  const search = new LeafSearch(places)
  for await (const lines of lineBlocksOf(join(dir, JOURNAL_FILE))) {
    for (const { bytes, complete } of lines) {
      if (!complete || !search.mayNeed(bytes)) continue
      for (const range of sealedRanges(parseJournalLine(bytes))) search.take(range)
      if (search.isDone) return search.leaves
    }
  }
  return search.leaves
}

class LeafSearch {
  readonly leaves: (number | undefined)[]
  readonly #places: readonly LinePosition[]
  /** Indices of the places whose leaf is not known. */
  readonly #open = new Map<string, Set<number>>()
  readonly #linesBefore = new Map<string, number>()
  /** How a range of a day begins; undefined for too many days. */
  readonly #starts: readonly Buffer[] | undefined

  constructor(places: readonly LinePosition[]) {
    this.#places = places
    this.leaves = places.map(() => undefined)
    for (const [at, { day }] of places.entries()) {
      this.#open.set(day, (this.#open.get(day) ?? new Set()).add(at))
    }
    const days = [...this.#open.keys()]
    this.#starts = days.length > MAX_STARTS ? undefined : days.map((day) => Buffer.from(`["${day}",`))
  }

  get isDone(): boolean {
    return this.#open.size === 0
  }

  /** Whether the journal line may have a range of a requested day. */
  mayNeed(line: Buffer): boolean {
    return this.#starts?.some((start) => line.includes(start)) ?? true
  }

  take({ day, start, end, lines, leaf }: PlacedRange): void {
    const before = this.#linesBefore.get(day) ?? 0
    this.#linesBefore.set(day, before + lines)
    const open = this.#open.get(day)
    if (open === undefined) return
    for (const at of open) {
      const place = this.#places[at]
      if (place === undefined || place.offset < start || place.offset >= end) continue
      this.leaves[at] = leaf + place.line - 1 - before
      open.delete(at)
    }
    if (open.size === 0) this.#open.delete(day)
  }
}
