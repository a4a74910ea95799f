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
import { reportChanges } from './leaf-diff.js'
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
