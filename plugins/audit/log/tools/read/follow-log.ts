// Follows a log: each sealed record once, in the order of the leaves, with the result of its check. The journal says which
// bytes are sealed, so a record that is still being written is never read.

import { dailyFiles } from '../../files/daily-files.js'
import { nodeFileSystem } from '../../files/file-system.js'
import type { SignedEnvelope } from '../../format/envelope.js'
import { AuditError, systemCode } from '../../format/errors.js'
import { type JournalLine, type LineOf, type PlacedRange, sealedRanges } from '../../format/journal-line.js'
import { dailyLog } from '../../format/paths.js'
import { journalLines, journalSize } from '../../tree/journal-file.js'
import { factsOfLog } from '../verify/journal-facts.js'
import type { FailureKind } from '../verify/report.js'
import { compileFilter, type LogFilter } from './filter.js'
import { RecordCheck } from './record-check.js'
import { recordLines } from './records.js'

export interface SealedRecord {
  /** Index of the record in the tree of the log. */
  readonly leaf: number
  readonly day: string
  /** Undefined if the sealed line is not a record. */
  readonly record: SignedEnvelope | undefined
  /** Why it is not verified: as of `verify`, and `bad_journal` if no key of the log has signed the seal. */
  readonly failure: FailureKind | undefined
}

/** Sealed records that cannot be read. */
export interface MissingRecords {
  readonly day: string
  /** Index of the first of them. */
  readonly leaf: number
  /** Whether a signed line of the journal states the removal of the day; it is reported once a day. */
  readonly isRemoved: boolean
}

export interface FollowOptions {
  /** The first leaf that is read; default 0. */
  readonly from?: number | undefined
  /** Resolves when the journal should be read again: true to continue, false to end. */
  more(): Promise<boolean>
  onMissing(missing: MissingRecords): void
  /** Called for a line of the journal that is not one. `end` is the offset after it. */
  onBadJournal(end: number): void
}

/**
 * The sealed records that match, and those that are sealed later, until `more` resolves to false. Lines that are not
 * records match every filter; `limit` and `last` do not apply. A directory without a log is waited for.
 *
 * @throws {AuditError} `not_sealed` for a log without a journal, `log_changed` if another log takes its place,
 * `read_failed`, `bad_timestamp`.
 */
export async function* followLog(
  dir: string,
  filter: LogFilter,
  options: FollowOptions,
): AsyncGenerator<SealedRecord, void, void> {
  const { record: isSelected, day: hasDay } = compileFilter(filter)
  const { from = 0 } = options
  let reader: SealedReader | undefined
  do {
    reader ??= await SealedReader.open(dir, options)
    for (const seal of reader?.newSeals() ?? []) {
      const failure = reader?.isSigned(seal) ? undefined : 'bad_journal'
      for (const range of sealedRanges(seal)) {
        if (range.leaf + range.lines <= from || !hasDay(range.day)) continue
        for await (const one of reader?.recordLines(range, from) ?? []) {
          if (one.record === undefined || isSelected(one.record))
            yield { ...one, failure: failure ?? one.failure }
        }
      }
    }
  } while (await options.more())
}

/** Reads the journal from the place on that it has reached. */
class SealedReader {
  readonly #removed = new Set<string>()
  #offset = 0

  private constructor(
    readonly dir: string,
    readonly options: FollowOptions,
    readonly check: RecordCheck,
    /** The file that is the journal. */
    readonly inode: number,
    /** Bytes of the journal from which the check has its keys. */
    readonly known: number,
  ) {}

  /** Undefined if nothing was written yet. */
  static async open(dir: string, options: FollowOptions): Promise<SealedReader | undefined> {
    const journal = journalSize(nodeFileSystem, dir)
    if (journal !== undefined)
      return new SealedReader(dir, options, await RecordCheck.open(dir), journal.inode, journal.end)
    if (await hasRecords(dir))
      throw new AuditError('not_sealed', `the log at ${dir} has no journal: its records are never sealed`)
    return undefined
  }

  *newSeals(): Generator<LineOf<'seal'>, void, void> {
    const { dir, check, known } = this
    const journal = journalSize(nodeFileSystem, dir)
    if (journal?.inode !== this.inode || journal.end < this.#offset)
      throw new AuditError('log_changed', `another log has taken the place of the one at ${dir}`)
    for (const { line, end } of journalLines(nodeFileSystem, dir, this.#offset, journal.end)) {
      this.#offset = end
      if (line === undefined || line.log_id !== check.logId) this.options.onBadJournal(end)
      else if (line.kind === 'seal') yield line
      else if (end > known && !check.keys.takeSigned(line)) this.options.onBadJournal(end)
    }
  }

  isSigned(line: JournalLine): boolean {
    return this.check.keys.takeSigned(line)
  }

  async *recordLines(range: PlacedRange, from: number): AsyncGenerator<SealedRecord, void, void> {
    const { day, start, end: to, lines } = range
    if (this.#removed.has(day)) return
    let [leaf, offset] = [range.leaf, start]
    try {
      for await (const { end, record, bytes } of recordLines(
        this.dir,
        { name: dailyLog(day), day },
        { from: start },
      )) {
        if (end > to || leaf === range.leaf + lines) break
        offset = end
        const failure = leaf < from ? undefined : await this.check.failureOf(bytes, day, leaf)
        if (leaf >= from)
          yield { leaf, day, record, failure: failure ?? (record === undefined ? 'not_json' : undefined) }
        leaf++
        if (end === to) break
      }
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw error
    }
    if (leaf === range.leaf + lines && offset === to) return
    const isRemoved = (await factsOfLog(this.dir))?.removals.has(day) ?? false
    if (isRemoved) this.#removed.add(day)
    this.options.onMissing({ day, leaf, isRemoved })
  }
}

async function hasRecords(dir: string): Promise<boolean> {
  try {
    return (await dailyFiles(dir)).length > 0
  } catch (error) {
    if (error instanceof AuditError && systemCode(error.cause) === 'ENOENT') return false
    throw error
  }
}
