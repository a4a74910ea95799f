// What is checked of each day beside the tree: records by themselves, sequence numbers, the unsealed end, removal.

import { join } from 'node:path'
import { countLines, linesOf } from '../../files/lines.js'
import { daysBetween } from '../../format/day.js'
import { dailyLog, JOURNAL_FILE } from '../../format/paths.js'
import { objectIn } from '../../format/stored-record.js'
import type { LineOf } from '../../tree/journal-line.js'
import { recordPlace } from '../../tree/record-place.js'
import type { PlacedRange } from '../../tree/seal-ranges.js'
import { ChangedDay } from './changed-days.js'
import type { Findings } from './findings.js'
import type { ChunkResult } from './scan-chunk.js'
import { type ScanPool, scanLines } from './scan-pool.js'
import { DaySequences, type Gap } from './sequences.js'

/**
 * What became of a range: it is as sealed; the stored leaves show that it has changed; no signed root confirms it; or
 * besides it is not the stated number of lines.
 */
export type RangeState = 'intact' | 'changed' | 'unconfirmed' | 'unlocated'

export interface DayParts {
  readonly dir: string
  readonly pool: ScanPool
  readonly judged: boolean
  readonly findings: Findings
  /** Size of each daily log that is there. */
  readonly sizes: ReadonlyMap<string, number>
  readonly onBytes: (bytes: number) => void
}

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
  removed = false
  readonly sequences = new DaySequences()
}

export class DayChecks {
  /** Whether an unsealed record names a log. */
  namesLog = false
  /** Whether ranges are not known because journal lines are missing. */
  #isIncomplete = false
  readonly #parts: DayParts
  readonly #days = new Map<string, Day>()

  constructor(parts: DayParts) {
    this.#parts = parts
  }

  journalIsIncomplete(): void {
    this.#isIncomplete = true
  }

  linesBefore(day: string): number {
    return this.#day(day).lines
  }

  /** Takes the next sealed range of a day whose file is there. */
  range(range: PlacedRange, result: ChunkResult, state: RangeState): void {
    const { dir, findings, judged } = this.#parts
    const day = this.#day(range.day)
    const file = dailyLog(range.day)
    // Sealed by a journal line that is missing.
    if (range.start > day.end) day.lines += countLines(join(dir, file), day.end, range.start)
    if (state === 'changed') day.changed ??= new ChangedDay(range.day)
    const lineBefore = day.lines
    if (day.changed !== undefined) {
      const { failures, whole } = result
      day.changed.add({ ...range, lineBefore, failures, whole }, state === 'changed')
    } else {
      if (state === 'unconfirmed' || state === 'unlocated') day.unconfirmed ??= day.lines + 1
      if (state === 'unlocated') this.#reportUnlocated(day, range)
      for (const { index, kind, message } of result.failures) {
        findings.fail({ file, line: lineBefore + index + 1, kind, message })
      }
      for (const run of result.runs) day.sequences.add(run, true)
      for (const run of result.lost) day.sequences.excuse(run)
    }
    findings.records += result.lines
    if (judged) findings.verified += result.lines - result.failures.length
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
    const { dir, sizes } = this.#parts
    const known = this.#day(day)
    known.end = end
    if (sizes.has(day)) known.lines = countLines(join(dir, dailyLog(day)), 0, end)
  }

  /** A rightly signed line of the journal states the removal of the days. */
  stateRemovals(days: Iterable<string>): void {
    for (const day of days) this.#day(day).removed = true
  }

  remove({ day, at, lines }: LineOf<'remove'>, line: number, retentionDays: number | undefined): void {
    const { findings } = this.#parts
    const known = this.#day(day)
    if (known.lines !== lines && !this.#isIncomplete) {
      const message = `it states ${lines} records of ${day}, ${known.lines} were sealed`
      findings.fail({ file: JOURNAL_FILE, line, kind: 'bad_journal', message })
    }
    const age = daysBetween(day, at.slice(0, 10))
    if (retentionDays === undefined || age > retentionDays) return
    const message = `${day} was removed after ${age} days, its retention is ${retentionDays}`
    findings.fail({ file: JOURNAL_FILE, line, kind: 'early_removal', message })
  }

  /** Checks what is known only when all ranges are. @param size number of leaves that the journal covers. */
  async finish(size: number): Promise<void> {
    const { findings, sizes } = this.#parts
    for (const day of [...new Set([...sizes.keys(), ...this.#days.keys()])].sort()) {
      const known = this.#day(day)
      const bytes = sizes.get(day)
      if (bytes !== undefined) {
        findings.files++
        await this.#finishDay(day, known, bytes, size)
      } else if (!known.removed && known.absent > 0) {
        const message = `the log is missing; ${known.absent} records were sealed`
        findings.fail({ file: dailyLog(day), line: 0, kind: 'missing_file', message })
      }
    }
  }

  get removedDays(): string[] {
    const { sizes } = this.#parts
    return [...this.#days].flatMap(([day, { removed }]) => (removed && !sizes.has(day) ? [day] : [])).sort()
  }

  async #finishDay(day: string, known: Day, bytes: number, size: number): Promise<void> {
    const { findings } = this.#parts
    const { changed, sequences } = known
    if (changed !== undefined) {
      const { unsealed, isToEnd } = await changed.report(this.#parts, bytes, findings)
      if (isToEnd) {
        findings.unsealed += unsealed
        return
      }
    }
    await this.#scanTail(day, known, bytes, this.#isIncomplete ? undefined : size)
    if (changed !== undefined || known.isUnlocated || this.#isIncomplete) return
    const gaps = sequences.gaps().filter(({ isSealed }) => isSealed)
    if (gaps.length > 0 || sequences.hasReplays) await this.#locate(day, gaps)
  }

  /** Checks the lines that are not sealed yet. */
  async #scanTail(day: string, known: Day, size: number, leaf: number | undefined): Promise<void> {
    const { dir, pool, judged, findings, onBytes } = this.#parts
    const file = dailyLog(day)
    let { lines } = known
    const tail = {
      path: join(dir, file),
      day,
      size,
      judged,
      ...(leaf === undefined ? {} : { leaf }),
      from: known.end,
      to: size,
    }
    let seen = known.end
    for await (const chunk of scanLines(pool, tail)) {
      for (const { index, kind, message } of chunk.failures) {
        findings.fail({ file, line: lines + index + 1, kind, message })
      }
      for (const run of chunk.runs) known.sequences.add(run, false)
      for (const run of chunk.lost) known.sequences.excuse(run)
      this.namesLog ||= chunk.namesLog
      lines += chunk.lines
      findings.records += chunk.lines
      findings.unsealed += chunk.lines
      if (judged) findings.verified += chunk.lines - chunk.failures.length
      if (chunk.tornBytes > 0) findings.torn(file, lines + 1, chunk.tornBytes, 'newline')
      onBytes(chunk.end - seen)
      seen = chunk.end
    }
  }

  /** Reads the day once more to find the lines of what the sequence numbers show. */
  async #locate(day: string, gaps: readonly Gap[]): Promise<void> {
    const { dir, findings } = this.#parts
    const file = dailyLog(day)
    const open = new Set(gaps)
    const sequences = new DaySequences()
    for await (const { bytes, number: line } of linesOf(join(dir, file))) {
      const place = recordPlace(objectIn(bytes) ?? {})
      if (place === undefined) continue
      const { session, number } = place
      sequences.hasReplays = false
      sequences.add({ session, from: number, to: number + 1 }, true)
      if (sequences.hasReplays) {
        findings.tampered('replayed', 1)
        const message = `${session}:${number} stands in a line before`
        findings.fail({ file, line, kind: 'replayed', message })
      }
      for (const gap of open) {
        if (gap.session !== session || number < gap.to) continue
        open.delete(gap)
        const count = gap.to - gap.from
        const message = `${count} records of session ${session} are missing, from number ${gap.from} on`
        findings.fail({ file, line, kind: 'missing', message })
      }
    }
  }

  #reportUnlocated(day: Day, range: PlacedRange): void {
    const { findings, sizes } = this.#parts
    if (day.isUnlocated) return
    day.isUnlocated = true
    const place = { file: dailyLog(range.day), line: day.unconfirmed ?? day.lines + 1 }
    const size = sizes.get(range.day) ?? 0
    const kind = size < range.end ? 'truncated' : 'altered'
    findings.tampered(kind, range.lines)
    const message =
      kind === 'truncated'
        ? `it has ${size} bytes, ${range.end} were sealed; the change is on this line or after it`
        : `from this line on it differs from what was sealed, and the tree does not show where`
    findings.fail({ ...place, kind, message })
  }

  #advance(day: Day, range: PlacedRange): void {
    day.lines += range.lines
    day.end = range.end
    this.#parts.findings.sealed += range.lines
  }

  #day(day: string): Day {
    const known = this.#days.get(day) ?? new Day()
    this.#days.set(day, known)
    return known
  }
}
