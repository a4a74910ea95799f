// Checks of each day beside the tree: single records, sequence numbers, what changed, the unsealed end, removal.

import { join } from 'node:path'
import { defined } from '@svc/core/json'
import { countLines, linesOf } from '../../files/lines.js'
import type { LineOf, PlacedRange } from '../../format/journal-line.js'
import { dailyLog, daysBetween, JOURNAL_FILE } from '../../format/paths.js'
import { objectIn } from '../../format/stored-record.js'
import type { ScannedRange } from './forensics.js'
import type { Context } from './inventory.js'
import type { ChunkResult } from './scan-chunk.js'
import { scanLines } from './scan-pool.js'
import { DaySequences } from './sequences.js'

/**
 * The state of a range: it is as sealed; the stored leaves show that it has changed; no signed root confirms it; or it
 * is also not the stated number of lines.
 */
export type RangeState = 'intact' | 'changed' | 'unconfirmed' | 'unlocated'

export class DayChecks {
  readonly #context: Context
  readonly #days = new Map<string, Day>()

  constructor(context: Context) {
    this.#context = context
  }

  /** Whether an unsealed record names a log. */
  get namesLog(): boolean {
    return [...this.#days.values()].some(({ namesLog }) => namesLog)
  }

  of(name: string): Day {
    const day = this.#days.get(name) ?? new Day(this.#context, name)
    this.#days.set(name, day)
    return day
  }

  /** @param isIncomplete whether ranges are not known because journal lines are missing. */
  remove(
    { day, at, lines }: LineOf<'remove'>,
    line: number,
    retentionDays: number | undefined,
    isIncomplete: boolean,
  ): void {
    const { findings, beginning } = this.#context
    // The records of a day that began before are not counted.
    const isCounted = !isIncomplete && !beginning?.ends.has(day)
    const sealed = this.of(day).lines
    if (isCounted && sealed !== lines) {
      const message = `it states ${lines} records of ${day}, ${sealed} were sealed`
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
    const { sizes, beginning } = this.#context
    const ends = beginning?.ends ?? new Map<string, number>()
    // The days that are as they were at the beginning are not read.
    const hasGrown = (day: string) => this.#days.has(day) || sizes.get(day) !== ends.get(day)
    const days = new Set([...sizes.keys(), ...ends.keys(), ...this.#days.keys()])
    for (const day of [...days].filter(hasGrown).sort()) await this.of(day).finish(size)
  }
}

class Day {
  /** Sealed lines so far. */
  lines = 0
  namesLog = false
  readonly #context: Context
  readonly #name: string
  readonly #file: string
  readonly #path: string
  /** Bytes of the file; undefined if it is not there. */
  readonly #size: number | undefined
  /** Bytes that were sealed at the beginning. */
  readonly #start: number
  /** Byte after the last sealed range. */
  #end: number
  /** The ranges from the first changed one on, and how many of them reach to the last changed one. */
  readonly #ranges: ScannedRange[] = []
  #changed = 0
  /** First line that no signed root confirms. */
  #unconfirmed: number | undefined
  #isUnlocated = false
  readonly #sequences = new DaySequences()

  constructor(context: Context, name: string) {
    this.#context = context
    this.#name = name
    this.#file = dailyLog(name)
    this.#path = join(context.dir, this.#file)
    this.#size = context.sizes.get(name)
    this.#start = context.beginning?.ends.get(name) ?? 0
    this.#end = this.#start
    if (this.#size !== undefined && this.#start > 0) this.lines = countLines(this.#path, 0, this.#start)
  }

  /** Takes the next sealed range; without a scan if the file is not there. */
  range(range: PlacedRange, scan?: ChunkResult, state: RangeState = 'intact'): void {
    // Sealed by a journal line that is missing.
    if (scan !== undefined && range.start > this.#end) {
      this.lines += countLines(this.#path, this.#end, range.start)
    }
    if (scan !== undefined && (state === 'changed' || this.#changed > 0)) {
      const { subtrees, failures } = scan
      this.#ranges.push({ ...range, lineBefore: this.lines, subtrees, failures })
      if (state === 'changed') this.#changed = this.#ranges.length
    } else if (scan !== undefined) {
      if (state !== 'intact') this.#unconfirmed ??= this.lines + 1
      if (state === 'unlocated') this.#reportUnlocated(range)
      this.#takeLines(this.lines, scan, true)
    }
    this.lines += range.lines
    this.#end = range.end
    this.#context.findings.totals.sealed += range.lines
  }

  /** Sealing of the day continues at another byte. */
  resume(end: number): void {
    this.#end = end
    if (this.#size !== undefined) this.lines = countLines(this.#path, 0, end)
  }

  /** Runs the checks that need all ranges. */
  async finish(size: number | undefined): Promise<void> {
    const { findings, facts } = this.#context
    const bytes = this.#size
    if (bytes === undefined) {
      if (facts?.removals.has(this.#name) === true || this.#end === 0) return
      const message = `the log is missing; ${this.#start > 0 ? 'its' : this.lines} records were sealed`
      findings.fail(this.#file, 0, 'missing_file', message)
      return
    }
    findings.totals.files++
    if (bytes < this.#start) {
      const message = `it has ${bytes} bytes, ${this.#start} were sealed`
      findings.tampered('truncated')
      findings.fail(this.#file, this.lines + 1, 'truncated', message)
      return
    }
    await this.#scanStart()
    const [isChanged, isToEnd] = [this.#changed > 0, this.#changed === this.#ranges.length]
    if (isChanged) {
      const { reportChangedDay } = await import('./forensics.js')
      const part = { file: this.#file, day: this.#name, size: bytes }
      const of = { ranges: this.#ranges, changed: this.#changed }
      findings.totals.unsealed += await reportChangedDay(this.#context, { ...part, ...of })
    }
    if (!isChanged || !isToEnd) await this.#scanTail(bytes, size)
    if (isChanged || this.#isUnlocated || size === undefined || !this.#sequences.hasFailed) return
    const { reportSequences } = await import('./forensics.js')
    await reportSequences(this.#context, this.#name, this.#sequences)
  }

  /** Checks the records before the beginning again: their numbers go on after it. */
  async #scanStart(): Promise<void> {
    const { pool, judged } = this.#context
    if (!judged || this.#start === 0) return
    let lines = 0
    const region = { path: this.#path, day: this.#name, from: 0, to: this.#start, judged }
    for await (const chunk of scanLines(pool, region)) {
      this.#takeLines(lines, chunk, true)
      lines += chunk.lines
    }
  }

  /** Checks the lines that are not sealed yet. */
  async #scanTail(to: number, leaf: number | undefined): Promise<void> {
    const { pool, judged, findings, onBytes } = this.#context
    let { lines } = this
    let end = this.#end
    const region = {
      path: this.#path,
      day: this.#name,
      from: end,
      to,
      judged,
      ...defined({ leaf }),
    }
    for await (const chunk of scanLines(pool, region)) {
      this.#takeLines(lines, chunk, false)
      this.namesLog ||= chunk.namesLog
      lines += chunk.lines
      findings.totals.unsealed += chunk.lines
      if (chunk.tornBytes > 0) findings.torn(this.#file, lines + 1, chunk.tornBytes)
      onBytes(chunk.end - end)
      end = chunk.end
    }
    if (lines > this.lines) await this.#checkWait()
  }

  /** Takes the time of the first record that is not sealed, and reports one that has waited for longer than is allowed. */
  async #checkWait(): Promise<void> {
    const { findings, maxUnsealedMs } = this.#context
    for await (const { bytes } of linesOf(this.#path, this.#end)) {
      const at = String(objectIn(bytes)?.['ts'])
      const ageMs = Date.now() - Date.parse(at)
      if (!Number.isNaN(ageMs)) findings.waits(at)
      if (maxUnsealedMs === undefined || ageMs <= maxUnsealedMs) return
      const message = Number.isNaN(ageMs)
        ? 'the record is not sealed yet, and states no time'
        : `the record is of ${at}, and is not sealed yet`
      findings.fail(this.#file, this.lines + 1, 'not_sealed', message)
      return
    }
  }

  #takeLines(before: number, scan: ChunkResult, isSealed: boolean): void {
    const { lines, failures, runs, lost } = scan
    const { judged, findings, votes } = this.#context
    const failed = new Set(failures.map(({ index }) => index))
    for (const { index, record } of votes === undefined ? [] : scan.votes)
      if (!failed.has(index)) votes?.take(this.#file, before + index + 1, record)
    findings.checked(lines, judged ? lines - failures.length : 0)
    for (const { index, kind, message } of failures)
      findings.fail(this.#file, before + index + 1, kind, message)
    for (const run of runs) this.#sequences.add(run, isSealed)
    for (const run of lost) this.#sequences.excuse(run)
  }

  #reportUnlocated(range: PlacedRange): void {
    if (this.#isUnlocated) return
    this.#isUnlocated = true
    const { findings } = this.#context
    const size = this.#size ?? 0
    const kind = size < range.end ? 'truncated' : 'altered'
    findings.tampered(kind, range.lines)
    const message =
      kind === 'truncated'
        ? `it has ${size} bytes, ${range.end} were sealed; the change is on this line or after it`
        : `from this line on it differs from what was sealed, and the tree does not show where`
    findings.fail(this.#file, this.#unconfirmed ?? this.lines + 1, kind, message)
  }
}
