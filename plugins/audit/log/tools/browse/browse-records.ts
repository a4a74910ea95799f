// Records from the newest to the oldest, as far as a budget allows, and one record by its leaf. What is read is bounded by the
// budget, not by the size of the log.

import { join } from 'node:path'
import { dailyFiles } from '../../files/daily-files.js'
import { nodeFileSystem, readExisting, sizeOf } from '../../files/file-system.js'
import { linesIn } from '../../files/lines.js'
import type { SignedEnvelope } from '../../format/envelope.js'
import { type JournalLine, type PlacedRange, sealedRanges } from '../../format/journal-line.js'
import { dailyLog } from '../../format/paths.js'
import { journalBackwards, journalLines, journalSize } from '../../tree/journal-file.js'
import { type CompiledFilter, compileFilter, type LogFilter } from '../read/filter.js'
import { recordIn } from '../read/records.js'

const MAX_READ_BYTES = 64 * 2 ** 20
/** The bytes of the newest records that are read, of those that are not sealed yet. */
const MAX_UNSEALED_BYTES = 4 * 2 ** 20
const MAX_RANGE_BYTES = 128 * 2 ** 20
/** Bytes of the journal that are read in search of a leaf, rather than halved again. */
const SCANNED_BYTES = 131_072
/** The clocks of writers differ. */
const CLOCK_MARGIN_MS = 3_600_000

export interface BrowsedRecord {
  /** Null if it is not sealed yet. */
  readonly leaf: number | null
  readonly record: SignedEnvelope
}

export interface BrowsedRecords {
  readonly records: readonly BrowsedRecord[]
  /** The leaf before which the search can go on; null at the beginning of the log. */
  readonly next: number | null
}

export interface BrowseOptions {
  readonly limit: number
  /** Only records that were sealed before this leaf; absent: from the newest record on, sealed or not. */
  readonly before?: number
  readonly maxBytes?: number
}

/** @throws {AuditError} `read_failed`; `bad_timestamp` if a bound of the filter is not an instant. */
export async function browseRecords(
  dir: string,
  filter: LogFilter,
  { limit, before, maxBytes = MAX_READ_BYTES }: BrowseOptions,
): Promise<BrowsedRecords> {
  const compiled = compileFilter(filter)
  const sinceMs = filter.since === undefined ? Number.NEGATIVE_INFINITY : Date.parse(filter.since)
  // Both parts are of one moment: a record that is sealed meanwhile would be in both.
  const journalEnd = journalSize(nodeFileSystem, dir)?.end ?? 0
  const records =
    before === undefined ? await unsealedRecords(dir, compiled, sealedEnds(dir, journalEnd)) : []
  let left = maxBytes
  // The line that seals the leaf is read too, as it seals those before it.
  const end = before === undefined ? journalEnd : journalLineAt(dir, before)?.end
  for (const { line } of journalBackwards(nodeFileSystem, dir, end)) {
    if (Date.parse(line.at) < sinceMs - CLOCK_MARGIN_MS) break
    for (const range of sealedRanges(line).reverse()) {
      if (before !== undefined && range.leaf >= before) continue
      if (records.length >= limit || left <= 0) return pageOf(records, limit, range.leaf + range.lines)
      if (!compiled.day(range.day)) continue
      left -= range.end - range.start
      const found = storedLines(dir, range).flatMap((bytes, at): BrowsedRecord[] => {
        const leaf = range.leaf + at
        const record = before !== undefined && leaf >= before ? undefined : matching(bytes, compiled)
        return record === undefined ? [] : [{ leaf, record }]
      })
      records.push(...found.reverse())
    }
  }
  return records.length > limit ? pageOf(records, limit, 0) : { records, next: null }
}

/** @param end the leaf after those that were not read. */
function pageOf(records: BrowsedRecord[], limit: number, end: number): BrowsedRecords {
  const omitted = records[limit]?.leaf ?? null
  return { records: records.slice(0, limit), next: omitted === null ? end : omitted + 1 }
}

export interface StoredRecord {
  readonly leaf: number
  /** The stored line as it is now. */
  readonly line: Buffer
}

/** The record at a leaf; undefined if there is none, the leaf is a line of the journal, or its day was removed. */
export function recordAt(dir: string, leaf: number): StoredRecord | undefined {
  for (const range of sealedRanges(journalLineAt(dir, leaf)?.line)) {
    if (leaf < range.leaf || leaf >= range.leaf + range.lines) continue
    const found = storedLines(dir, range)[leaf - range.leaf]
    return found && { leaf, line: Buffer.from(found) }
  }
  return undefined
}

/** The same, parsed. */
export function browsedRecord(dir: string, leaf: number): BrowsedRecord | undefined {
  const record = recordIn(recordAt(dir, leaf)?.line ?? Buffer.alloc(0))
  return record && { leaf, record }
}

/** The record whose line ends before the byte `end` of its day's file; undefined if no line ends there. */
export function recordEndingAt(dir: string, day: string, end: number): BrowsedRecord | undefined {
  let sealed: number | undefined
  for (const { line } of journalBackwards(nodeFileSystem, dir)) {
    if (Date.parse(line.at) < Date.parse(day) - CLOCK_MARGIN_MS) break
    for (const range of sealedRanges(line)) {
      if (range.day !== day) continue
      sealed ??= range.end
      if (end <= range.start || end > range.end) continue
      const [bytes, at] = lineEndingAt(dir, range, end)
      const record = bytes && matching(bytes, compileFilter({}))
      return record && { leaf: range.leaf + at, record }
    }
  }
  const size = sizeOf(nodeFileSystem, join(dir, dailyLog(day))) ?? 0
  const start = sealed ?? 0
  if (end > size || end <= start || end - start > MAX_RANGE_BYTES) return undefined
  const [bytes] = lineEndingAt(dir, { day, start, end }, end)
  const record = bytes && matching(bytes, compileFilter({}))
  return record && { leaf: null, record }
}

function lineEndingAt(
  dir: string,
  range: Pick<PlacedRange, 'day' | 'start' | 'end'>,
  end: number,
): [bytes: Buffer | undefined, at: number] {
  let offset = range.start
  for (const [at, bytes] of storedLines(dir, range).entries()) {
    offset += bytes.length + 1
    if (offset === end) return [bytes, at]
  }
  return [undefined, -1]
}

function matching(bytes: Buffer, compiled: CompiledFilter): SignedEnvelope | undefined {
  const record = recordIn(bytes)
  return record !== undefined && compiled.record(record) ? record : undefined
}

/** The lines in a part of a day's file. */
function storedLines(dir: string, { day, start, end }: Pick<PlacedRange, 'day' | 'start' | 'end'>): Buffer[] {
  const length = Math.min(end - start, MAX_RANGE_BYTES)
  const bytes = readExisting(nodeFileSystem, join(dir, dailyLog(day)), (fd) => {
    const buffer = Buffer.allocUnsafe(length)
    return buffer.subarray(0, nodeFileSystem.readSync(fd, buffer, 0, length, start))
  })
  return bytes === undefined ? [] : linesIn(bytes)
}

async function unsealedRecords(
  dir: string,
  compiled: CompiledFilter,
  ends: ReadonlyMap<string, number>,
): Promise<BrowsedRecord[]> {
  const records: BrowsedRecord[] = []
  for (const { name, day } of (await dailyFiles(dir)).reverse()) {
    const end = sizeOf(nodeFileSystem, join(dir, name)) ?? 0
    const start = ends.get(day) ?? 0
    if (start >= end || !compiled.day(day)) continue
    const from = Math.max(start, end - MAX_UNSEALED_BYTES)
    const lines = storedLines(dir, { day, start: from, end })
    // The first one may be the rest of a line.
    for (const bytes of (from > start ? lines.slice(1) : lines).reverse()) {
      const record = matching(bytes, compiled)
      if (record !== undefined) records.push({ leaf: null, record })
    }
  }
  return records
}

/** Sealed bytes of every day, from the newest lines of the journal before its byte `journalEnd`; by default all. */
export function sealedEnds(dir: string, journalEnd?: number): ReadonlyMap<string, number> {
  const ends = new Map<string, number>()
  const take = (day: string, end: number) => {
    if (!ends.has(day)) ends.set(day, end)
  }
  for (const { line } of journalBackwards(nodeFileSystem, dir, journalEnd)) {
    if (line.kind === 'fault') take(line.day, line.resume)
    if (line.kind !== 'seal') continue
    for (const [day, , end] of line.ranges.toReversed()) take(day, end)
    if (line.ends === undefined) continue
    for (const [day, end] of line.ends) take(day, end)
    break
  }
  return ends
}

/** Bytes of a day's file that are sealed. */
export interface SealedEnd {
  readonly day: string
  readonly end: number
}

/** The days that may have unsealed records; all records of earlier days are sealed. */
const NEWEST_DAYS = 3

export function newestSealedEnds(dir: string): SealedEnd[] {
  return [...sealedEnds(dir)]
    .map(([day, end]) => ({ day, end }))
    .sort((a, b) => (a.day < b.day ? -1 : 1))
    .slice(-NEWEST_DAYS)
}

interface FoundLine {
  readonly line: JournalLine
  /** Offset of its first byte, and after its newline. */
  readonly start: number
  readonly end: number
}

/** The first line that is `leaf` or after it: the one that seals it, unless it is that leaf itself. */
function journalLineAt(dir: string, leaf: number): FoundLine | undefined {
  const size = journalSize(nodeFileSystem, dir)?.end ?? 0
  let from = 0
  let to = size
  while (to - from > SCANNED_BYTES) {
    const middle = Math.floor((from + to) / 2)
    const found = firstLine(dir, middle, size)
    if (found === undefined || found.line.leaf >= leaf) to = middle
    else from = found.start
  }
  for (const { line, start, end } of journalLines(nodeFileSystem, dir, from, size)) {
    if (line !== undefined && line.leaf >= leaf) return { line, start, end }
  }
  return undefined
}

/** The first line that begins after the byte `from`. */
function firstLine(dir: string, from: number, to: number): FoundLine | undefined {
  for (const { line, start, end } of journalLines(nodeFileSystem, dir, from, to)) {
    // The first one may be the rest of a line.
    if (start !== from && line !== undefined) return { line, start, end }
  }
  return undefined
}
