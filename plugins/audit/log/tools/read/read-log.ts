// Reads records, filtered, in written order.

import { type DailyFile, dailyFiles } from '../../files/daily-files.js'
import type { SignedEnvelope } from '../../format/envelope.js'
import { AuditError } from '../../format/errors.js'
import type { FailureKind } from '../verify/report.js'
import { type CompiledFilter, compileFilter, type LogFilter } from './filter.js'
import type { RecordCheck } from './record-check.js'
import { recordLines } from './records.js'

export interface Place {
  readonly file: string
  /** Counted from 1. */
  readonly line: number
}

export interface ReadOptions {
  /** Called for lines that are not a record; without it such a line is an error. */
  onBadLine?: (place: Place) => void
  /**
   * Called before each record whose signature does not fit a key of the log, or that is not of this log and day. With
   * it, the signature of each record that matches is checked.
   */
  onUnverified?: (place: Place & { readonly kind: FailureKind }) => void
}

/** @throws {AuditError} `read_failed`; `bad_timestamp` when `since` or `until` is not an instant. */
export async function* readLog(
  dir: string,
  filter: LogFilter = {},
  options: ReadOptions = {},
): AsyncGenerator<SignedEnvelope, void, void> {
  const reader = await LogReader.open(dir, filter, options)
  if (filter.last !== undefined) {
    yield* lastOf(reader, filter.last)
    return
  }
  let remaining = filter.limit ?? Number.POSITIVE_INFINITY
  for (const file of await reader.files()) {
    for await (const match of reader.matches(file)) {
      yield reader.checked(match)
      if (--remaining <= 0) return
    }
  }
}

/** The last `count` matches in written order; reads the newest days only. */
async function* lastOf(reader: LogReader, count: number): AsyncGenerator<SignedEnvelope, void, void> {
  let newest: Match[] = []
  for (const file of (await reader.files()).reverse()) {
    const room = count - newest.length
    if (room <= 0) break
    const ofDay: Match[] = []
    for await (const match of reader.matches(file)) {
      ofDay.push(match)
      if (ofDay.length > room) ofDay.shift()
    }
    newest = [...ofDay, ...newest]
  }
  for (const match of newest) yield reader.checked(match)
}

interface Match {
  readonly record: SignedEnvelope
  /** The stored line, if its signature is checked. */
  readonly bytes: Buffer | undefined
  readonly day: string
  readonly place: Place
}

/** The matching records of a log. */
class LogReader {
  readonly #filter: CompiledFilter

  private constructor(
    readonly dir: string,
    filter: LogFilter,
    readonly options: ReadOptions,
    readonly check: RecordCheck | undefined,
  ) {
    this.#filter = compileFilter(filter)
  }

  static async open(dir: string, filter: LogFilter, options: ReadOptions): Promise<LogReader> {
    if (options.onUnverified === undefined) return new LogReader(dir, filter, options, undefined)
    // Loaded here, because most readers do not need it.
    const check = await (await import('./record-check.js')).RecordCheck.open(dir)
    return new LogReader(dir, filter, options, check.keys.ids.length === 0 ? undefined : check)
  }

  async files(): Promise<DailyFile[]> {
    return (await dailyFiles(this.dir)).filter(({ day }) => this.#filter.day(day))
  }

  async *matches(file: DailyFile): AsyncGenerator<Match, void, void> {
    for await (const { record, bytes, day, file: name, number } of recordLines(this.dir, file)) {
      const place = { file: name, line: number }
      if (record === undefined) this.#reportBad(place)
      else if (this.#filter.record(record))
        yield { record, day, place, bytes: this.check === undefined ? undefined : Buffer.from(bytes) }
    }
  }

  /** The record, after its signature was checked, if that was requested. */
  async checked({ record, bytes, day, place }: Match): Promise<SignedEnvelope> {
    const kind = bytes === undefined ? undefined : await this.check?.failureOf(bytes, day)
    if (kind !== undefined) this.options.onUnverified?.({ ...place, kind })
    return record
  }

  #reportBad(place: Place): void {
    const { onBadLine } = this.options
    if (onBadLine === undefined)
      throw new AuditError('read_failed', `${place.file}:${place.line} is not a record`)
    onBadLine(place)
  }
}
