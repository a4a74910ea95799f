// Checks of each day beside the tree: single records, sequence numbers, the unsealed end, removal.

import { join } from 'node:path'
import { countLines } from '../../files/lines.js'
import { daysBetween } from '../../format/day.js'
import { dailyLog, JOURNAL_FILE } from '../../format/paths.js'
import type { LineOf } from '../../tree/journal-line.js'
import type { PlacedRange } from '../../tree/seal-ranges.js'
import { ChangedDay } from './changed-days.js'
import type { Context } from './inventory.js'
import type { ChunkResult } from './scan-chunk.js'
import { scanLines } from './scan-pool.js'
import { DaySequences, reportSequences } from './sequences.js'

/**
 * The state of a range: it is as sealed; the stored leaves show that it has changed; no signed root confirms it; or it
 * is also not the stated number of lines.
 */
export type RangeState = 'intact' | 'changed' | 'unconfirmed' | 'unlocated'

class Day {
  /** Sealed lines so far. */
  lines = 0
  /** Byte after the last sealed range. */
  end = 0
  absent = 0
  changed: ChangedDay | undefined
  /** First line that no signed root confirms. */
  unconfirmed: number | undefined
  isUnlocated = false
  readonly sequences = new DaySequences()
}

export class DayChecks {
  /** Whether an unsealed record names a log. */
  namesLog = false
  readonly #context: Context
  readonly #days = new Map<string, Day>()

  constructor(context: Context) {
    this.#context = context
  }

  linesBefore(day: string): number {
    return this.#day(day).lines
  }

  /** Takes the next sealed range of a day whose file is there. */
  range(range: PlacedRange, result: ChunkResult, state: RangeState): void {
    const { dir } = this.#context
    const day = this.#day(range.day)
    // Sealed by a journal line that is missing.
    if (range.start > day.end) {
      day.lines += countLines(join(dir, dailyLog(range.day)), day.end, range.start)
    }
    if (state === 'changed') day.changed ??= new ChangedDay(this.#context, range.day)
    if (day.changed !== undefined) {
      day.changed.add(range, day.lines, result, state === 'changed')
    } else {
      if (state !== 'intact') day.unconfirmed ??= day.lines + 1
      if (state === 'unlocated') this.#reportUnlocated(day, range)
      this.#takeLines(range.day, day.lines, result, true)
    }
    this.#advance(day, range)
  }

  /** Takes a range of a day whose file is not there. */
  absent(range: PlacedRange): void {
    const day = this.#day(range.day)
    day.absent += range.lines
    this.#advance(day, range)
  }

  /** Sealing of the day continues at another byte. */
  resume(day: string, end: number): void {
    const { dir, sizes } = this.#context
    const known = this.#day(day)
    known.end = end
    if (sizes.has(day)) known.lines = countLines(join(dir, dailyLog(day)), 0, end)
  }

  /** @param isIncomplete whether ranges are not known because journal lines are missing. */
  remove(
    { day, at, lines }: LineOf<'remove'>,
    line: number,
    retentionDays: number | undefined,
    isIncomplete: boolean,
  ): void {
    const { findings } = this.#context
    const known = this.#day(day)
    if (known.lines !== lines && !isIncomplete) {
      const message = `it states ${lines} records of ${day}, ${known.lines} were sealed`
      findings.fail(JOURNAL_FILE, line, 'bad_journal', message)
    }
    const age = daysBetween(day, at.slice(0, 10))
    if (retentionDays === undefined || age > retentionDays) return
    const message = `${day} was removed after ${age} days, its retention is ${retentionDays}`
    findings.fail(JOURNAL_FILE, line, 'early_removal', message)
  }

  /**
   * Runs the checks that need all ranges.
   *
   * @param size number of leaves that the journal covers; undefined if ranges are not known.
   */
  async finish(size: number | undefined): Promise<void> {
    const { findings, sizes, facts } = this.#context
    const days = [...sizes.keys(), ...this.#days.keys(), ...(facts?.removals.keys() ?? [])]
    for (const day of [...new Set(days)].sort()) {
      const known = this.#day(day)
      const bytes = sizes.get(day)
      if (bytes !== undefined) {
        findings.totals.files++
        await this.#finishDay(day, known, bytes, size)
      } else if (facts?.removals.has(day) !== true && known.absent > 0) {
        const message = `the log is missing; ${known.absent} records were sealed`
        findings.fail(dailyLog(day), 0, 'missing_file', message)
      }
    }
  }

  async #finishDay(day: string, known: Day, bytes: number, size: number | undefined): Promise<void> {
    const { changed, sequences } = known
    const unsealed = await changed?.report(bytes)
    if (unsealed === undefined) await this.#scanTail(day, known, bytes, size)
    else this.#context.findings.totals.unsealed += unsealed
    if (changed !== undefined || known.isUnlocated || size === undefined) return
    if (sequences.hasFailed) await reportSequences(this.#context, day, sequences)
  }

  /** Checks the lines that are not sealed yet. */
  async #scanTail(day: string, known: Day, size: number, leaf: number | undefined): Promise<void> {
    const { dir, pool, judged, findings, onBytes } = this.#context
    const file = dailyLog(day)
    let { lines, end } = known
    const place = { path: join(dir, file), from: end, to: size }
    for await (const chunk of scanLines(pool, {
      ...place,
      day,
      judged,
      ...(leaf !== undefined && { leaf }),
    })) {
      this.#takeLines(day, lines, chunk, false)
      this.namesLog ||= chunk.namesLog
      lines += chunk.lines
      findings.totals.unsealed += chunk.lines
      if (chunk.tornBytes > 0) findings.torn(file, lines + 1, chunk.tornBytes)
      onBytes(chunk.end - end)
      end = chunk.end
    }
  }

  #takeLines(day: string, before: number, result: ChunkResult, isSealed: boolean): void {
    const { judged, findings } = this.#context
    const { lines, failures, runs, lost } = result
    const { sequences } = this.#day(day)
    findings.checked(lines, judged ? lines - failures.length : 0)
    for (const { index, kind, message } of failures) {
      findings.fail(dailyLog(day), before + index + 1, kind, message)
    }
    for (const run of runs) sequences.add(run, isSealed)
    for (const run of lost) sequences.excuse(run)
  }

  #reportUnlocated(day: Day, range: PlacedRange): void {
    const { findings, sizes } = this.#context
    if (day.isUnlocated) return
    day.isUnlocated = true
    const line = day.unconfirmed ?? day.lines + 1
    const size = sizes.get(range.day) ?? 0
    const kind = size < range.end ? 'truncated' : 'altered'
    findings.tampered(kind, range.lines)
    const message =
      kind === 'truncated'
        ? `it has ${size} bytes, ${range.end} were sealed; the change is on this line or after it`
        : `from this line on it differs from what was sealed, and the tree does not show where`
    findings.fail(dailyLog(range.day), line, kind, message)
  }

  #advance(day: Day, range: PlacedRange): void {
    day.lines += range.lines
    day.end = range.end
    this.#context.findings.totals.sealed += range.lines
  }

  #day(day: string): Day {
    const known = this.#days.get(day) ?? new Day()
    this.#days.set(day, known)
    return known
  }
}
