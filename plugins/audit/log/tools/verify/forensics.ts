// Locates what is wrong in a day, once a check over the whole of it has failed. Only then is this module loaded, and the day
// read again: the part between the first and the last changed range is compared line by line with the sealed leaves, and
// each record's sequence number with those before.

import { join } from 'node:path'
import { linesOf } from '../../files/lines.js'
import type { Digest } from '../../format/digest.js'
import type { PlacedRange } from '../../format/journal-line.js'
import { dailyLog } from '../../format/paths.js'
import { objectIn, recordPlace } from '../../format/stored-record.js'
import { storedLeaves } from '../../tree/tree-store.js'
import type { Context } from './inventory.js'
import type { Findings } from './report.js'
import type { ChunkResult, IndexedFailure } from './scan-chunk.js'
import { scanLines } from './scan-pool.js'
import { DaySequences } from './sequences.js'

/** More lines than this are not compared, so that memory stays bounded. */
const MAX_LINES = 2_097_152
/** Failed lines that are remembered, so that they get no second failure. */
const MAX_FAILED_LINES = 200_000

/** A sealed range and what its bytes hold. */
export interface ScannedRange extends PlacedRange, Pick<ChunkResult, 'subtrees' | 'failures'> {
  /** Lines of the day that were sealed before. */
  readonly lineBefore: number
}

interface ChangedDay {
  readonly file: string
  readonly day: string
  /** Bytes of the file. */
  readonly size: number
  /** The ranges from the first changed one on, and how many of them reach to the last changed one. */
  readonly ranges: readonly ScannedRange[]
  readonly changed: number
}

/** Returns the number of lines that are not sealed yet, if the part reaches to the end of the file. */
export async function reportChangedDay(
  { dir, pool, judged, findings }: Context,
  { file, day, size, ranges, changed }: ChangedDay,
): Promise<number> {
  const [inside, after] = [ranges.slice(0, changed), ranges.slice(changed)]
  const [first, last] = [inside[0], inside.at(-1)]
  if (first === undefined || last === undefined) return 0
  const { lineBefore } = first
  const isToEnd = after.length === 0
  // Line numbers and the leaves of lines are as sealed if every range has its number of whole lines. They were checked then;
  // of others the leaf is not known.
  const isAligned = inside.every(({ subtrees }) => subtrees !== undefined)
  const checked = isAligned ? last.lineBefore + last.lines - lineBefore : 0
  const failedLines = new Set<number>()
  let failures = 0
  const fail = (line: number, { kind, message }: IndexedFailure) => {
    findings.fail(file, lineBefore + line + 1, kind, message)
    failures++
    if (failures <= MAX_FAILED_LINES) failedLines.add(line)
  }
  for (const range of isAligned ? ranges : after) {
    for (const failure of range.failures) fail(range.lineBefore + failure.index - lineBefore, failure)
  }
  const present: Digest[] = []
  let lines = 0
  const region = { path: join(dir, file), day, from: first.start, to: after[0]?.start ?? size, judged }
  for await (const chunk of scanLines(pool, region)) {
    for (const failure of chunk.failures)
      if (lines + failure.index >= checked) fail(lines + failure.index, failure)
    if (lines <= MAX_LINES) for (const leaf of chunk.hashes) present.push(leaf)
    lines += chunk.lines
    if (chunk.tornBytes > 0 && isToEnd) findings.torn(file, lineBefore + lines + 1, chunk.tornBytes)
  }
  const records = after.reduce((sum, range) => sum + range.lines, lines)
  findings.checked(records, judged ? records - failures : 0)
  const before = findings.total
  const sealed = lines > MAX_LINES ? undefined : sealedLeaves(dir, inside)
  const compared = { file, lineBefore, failedLines, judged, isToEnd, present }
  const unsealed = sealed && reportChanges({ ...compared, sealed }, findings)
  if (unsealed === undefined) {
    const message = 'from this line on, too much differs from what was sealed to be located'
    findings.fail(file, lineBefore + 1, 'altered', message)
  } else if (findings.total === before && failures === 0) {
    const isShort = size < last.end
    const message = isShort ? 'its last bytes are missing' : 'its lines are not where they were sealed'
    findings.fail(file, last.lineBefore + last.lines, isShort ? 'truncated' : 'altered', message)
  }
  return isToEnd ? (unsealed ?? 0) : 0
}

/** Undefined for more than are compared. */
function sealedLeaves(dir: string, ranges: readonly ScannedRange[]): Digest[] | undefined {
  if (ranges.reduce((sum, { lines }) => sum + lines, 0) > MAX_LINES) return undefined
  return ranges.flatMap(({ leaf, lines }) => [...storedLeaves(dir, leaf, leaf + lines)].flat())
}

interface ComparedLines {
  readonly file: string
  /** Lines of the file before those that are compared. */
  readonly lineBefore: number
  readonly sealed: readonly Digest[]
  readonly present: readonly Digest[]
  /** Lines, counted from 0, that have a failure already. */
  readonly failedLines: ReadonlySet<number>
  /** Whether each record was checked by itself. */
  readonly judged: boolean
  /** Whether the lines reach to the end of the file, so that new ones may not be sealed yet. */
  readonly isToEnd: boolean
}

/**
 * Reports how the lines differ from the sealed leaves, which are practically unique: the longest series of lines that are in
 * the sealed order stands where it was sealed, and the others were moved, copied, changed or added.
 *
 * @returns the number of lines at the end that are not sealed yet.
 */
function reportChanges(lines: ComparedLines, findings: Findings): number {
  const { file, lineBefore, sealed, present, failedLines, judged, isToEnd } = lines
  const sealedAt = new Map(sealed.map((leaf, at) => [leaf, at]))
  const standing = longestSeries(present.map((leaf) => sealedAt.get(leaf)))
  const stand = new Set(standing.map((line) => present[line]))
  const here = new Set(present)
  const report = (line: number, kind: 'reordered' | 'replayed', message: string) => {
    findings.tampered(kind)
    findings.fail(file, lineBefore + line + 1, kind, message)
  }
  let unsealed = 0
  let [at, lineAt] = [0, 0]
  for (const line of [...standing, present.length]) {
    const isLast = line === present.length
    const next = isLast ? sealed.length : (sealedAt.get(present[line] ?? '') ?? sealed.length)
    const missing: number[] = []
    for (; at < next; at++) if (!here.has(sealed[at] ?? '')) missing.push(at)
    const unknown: number[] = []
    const atEnd = isLast && isToEnd
    const start = lineAt
    for (; lineAt < line; lineAt++) {
      const leaf = present[lineAt] ?? ''
      const from = sealedAt.get(leaf)
      // A caller may append the same record twice; after the end of the sealed lines that is not a failure.
      if (from !== undefined && !stand.has(leaf)) {
        report(lineAt, 'reordered', `the record was sealed as line ${lineBefore + from + 1}`)
      } else if (from !== undefined && !atEnd) {
        report(lineAt, 'replayed', 'a second copy of a record that was sealed once')
      } else if (atEnd && !failedLines.has(lineAt) && (judged || missing.length <= unknown.length)) {
        unsealed++
      } else {
        unknown.push(lineAt)
      }
    }
    reportDifference(lines, { missing, unknown, lineAt: start, atEnd }, findings)
    at = next + 1
    lineAt = line + 1
  }
  return unsealed
}

/**
 * Reports the lines from `lineAt` on that are neither moved nor copied: replaced line by line, else missing or new.
 *
 * @param change `missing` counted among the sealed leaves, `unknown` among the lines.
 */
function reportDifference(
  { file, lineBefore, failedLines }: ComparedLines,
  change: {
    readonly missing: readonly number[]
    readonly unknown: readonly number[]
    readonly lineAt: number
    readonly atEnd: boolean
  },
  findings: Findings,
): void {
  const { missing, unknown, lineAt, atEnd } = change
  for (const [i, line] of unknown.entries()) {
    const replaced = missing[i]
    const kind = replaced === undefined ? 'inserted' : 'edited'
    findings.tampered(kind)
    if (failedLines.has(line)) continue
    const message =
      replaced === undefined
        ? 'never sealed here'
        : `not the record that was sealed as line ${lineBefore + replaced + 1}`
    findings.fail(file, lineBefore + line + 1, kind, message)
  }
  const rest = missing.slice(unknown.length).map((line) => lineBefore + line + 1)
  if (rest.length === 0) return
  const kind = atEnd ? 'truncated' : 'deleted'
  findings.tampered(kind, rest.length)
  const what = rest.length === 1 ? '1 record is' : `${rest.length} records are`
  const where = atEnd ? 'missing from the end' : 'missing before this line'
  const sealedAs = rest.length === 1 ? `line ${rest[0]}` : `lines ${rest[0]} to ${rest.at(-1)}`
  const line = lineBefore + (unknown.at(-1) ?? lineAt - 1) + 2
  findings.fail(file, line, kind, `${what} ${where}, sealed as ${sealedAs}`)
}

/** The numbers of the longest series of entries that ascend, by the tops of piles (patience sorting). */
function longestSeries(entries: readonly (number | undefined)[]): number[] {
  const tops: number[] = []
  const before = new Int32Array(entries.length)
  for (const [number, entry] of entries.entries()) {
    if (entry === undefined) continue
    let [low, high] = [0, tops.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((entries[tops[middle] ?? 0] ?? 0) < entry) low = middle + 1
      else high = middle
    }
    const top = tops[low]
    // The first of several copies stands.
    if (top !== undefined && entries[top] === entry) continue
    before[number] = tops[low - 1] ?? -1
    tops[low] = number
  }
  const series: number[] = []
  for (let last = tops.at(-1) ?? -1; last >= 0; last = before[last] ?? -1) series.push(last)
  return series.reverse()
}

/** Reads the day once more to report the lines of replayed and missing records. */
export async function reportSequences(
  { dir, findings }: { readonly dir: string; readonly findings: Findings },
  day: string,
  { missing }: DaySequences,
): Promise<void> {
  const file = dailyLog(day)
  const open = new Set(missing)
  const sequences = new DaySequences()
  for await (const { bytes, number: line } of linesOf(join(dir, file))) {
    const place = recordPlace(objectIn(bytes) ?? {})
    if (place === undefined) continue
    const { session, number } = place
    if (!sequences.add({ session, from: number, to: number + 1 }, true)) {
      findings.tampered('replayed')
      findings.fail(file, line, 'replayed', `${session}:${number} stands in a line before`)
    }
    for (const gap of open) {
      if (gap.session !== session || number < gap.to) continue
      open.delete(gap)
      const count = gap.to - gap.from
      const message = `${count} records of session ${session} are missing, from number ${gap.from} on`
      findings.fail(file, line, 'missing', message)
    }
  }
}
