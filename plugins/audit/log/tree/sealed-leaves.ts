// The sealed ranges of days, and their lines hashed again: to bring a tree forward, and to compare a day with its tree.

import { join } from 'node:path'
import { type FileSystem, openExisting, READ, readExisting } from '../files/file-system.js'
import { endOfLastLine } from '../files/log-file.js'
import type { Digest } from '../format/digest.js'
import { type PlacedRange, placeRanges, type SealRange } from '../format/journal-line.js'
import { coverFile, dailyLog } from '../format/paths.js'
import { alignedSubtrees, LeafRange } from '../merkle/leaf-range.js'
import { DIGEST_BYTES, digestFromBytes } from '../merkle/tree-hash.js'
import { inconsistentLog } from './inconsistent-log.js'
import { journalLines } from './journal-file.js'
import { hashLines } from './read-lines.js'
import type { TreeStore, TreeWriter } from './tree-store.js'

export interface LogFiles {
  readonly dir: string
  readonly port: FileSystem
}

/** How far the cover of each removed day has been used. */
export type CoverOffsets = Map<string, number>

/**
 * Adds the leaves of `ranges`; of a removed day, the roots in its cover.
 *
 * @throws {AuditError} `log_unlinked` if the files do not have those lines.
 */
export async function addSealedLeaves(
  source: LogFiles,
  ranges: readonly SealRange[],
  writer: TreeWriter,
  covers: CoverOffsets,
): Promise<void> {
  const { dir, port } = source
  for (const range of ranges) {
    const [day] = range
    const fd = openExisting(port, join(dir, dailyLog(day)), READ)
    if (fd === undefined) {
      await addCover(source, range, writer, covers)
      continue
    }
    try {
      await addLines(port, fd, range, writer)
    } finally {
      port.closeSync(fd)
    }
  }
}

async function addLines(
  port: FileSystem,
  fd: number,
  [day, from, to, lines]: SealRange,
  writer: TreeWriter,
): Promise<void> {
  let found = 0
  try {
    await hashLines(port, fd, { from, to }, (leaf) => {
      found++
      writer.add(leaf)
    })
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause
    throw inconsistentLog(`sealed records of ${day} are missing`, cause)
  }
  if (found !== lines)
    throw inconsistentLog(`${lines} records of ${day} were sealed where ${found} lines are`)
}

/** Adds the roots of a range that begins at the writer's end; in the cover they follow those of the day's earlier ranges. */
async function addCover(
  { dir, port }: LogFiles,
  [day, from, , lines]: SealRange,
  writer: TreeWriter,
  covers: CoverOffsets,
): Promise<void> {
  const start = writer.range.end
  const subtrees = alignedSubtrees(start, start + lines)
  // The ranges before it may have been read from the log, before another process removed it.
  const offset = covers.get(day) ?? (from === 0 ? 0 : await coverOffset({ dir, port }, day, start))
  const bytes = Buffer.alloc(subtrees.length * DIGEST_BYTES)
  const got = readExisting(port, join(dir, coverFile(day)), (fd) =>
    port.readSync(fd, bytes, 0, bytes.length, offset),
  )
  if (got !== bytes.length) throw inconsistentLog(`the log of ${day} is missing, and so is its cover`)
  for (const [i, { level }] of subtrees.entries()) writer.add(digestFromBytes(bytes, i * DIGEST_BYTES), level)
  covers.set(day, offset + bytes.length)
}

/** The offset in the cover of `day` of the roots of the range that begins with the leaf `start`. */
export async function coverOffset(source: LogFiles, day: string, start: number): Promise<number> {
  const ranges = (await sealedDays(source, Infinity, new Set([day]))).get(day)?.ranges ?? []
  const before = ranges.filter(({ leaf }) => leaf < start)
  const roots = before.reduce((sum, { leaf, lines }) => sum + alignedSubtrees(leaf, leaf + lines).length, 0)
  return roots * DIGEST_BYTES
}

/** The place of a line. */
export interface PlacedLine {
  readonly leaf: number
  /** Offset of its first byte. */
  readonly start: number
}

interface DayComparison {
  /** The first line that is not as it is in the tree, or is missing; undefined if all sealed lines are there. */
  readonly changed?: PlacedLine
  /** Offset after the last line that is as it was sealed, with all before it. */
  readonly equalEnd: number
  readonly lines: number
  /** The content of the day's cover; valid only if no line has changed. */
  readonly prunedRoots: Buffer
}

/** Compares a day's log with the leaves in the tree files. */
export async function compareDay(
  { dir, port }: LogFiles,
  day: string,
  ranges: readonly PlacedRange[],
  store: TreeStore,
): Promise<DayComparison> {
  const prunedRoots: Uint8Array[] = []
  let equalEnd = 0
  let lines = 0
  const fd = openExisting(port, join(dir, dailyLog(day)), READ)
  try {
    for (const range of ranges) {
      const leaves = fd === undefined ? [] : await leavesOf(port, fd, range)
      const sealed = store.hashes(0, range.leaf, range.lines)
      let start = range.start
      for (let i = 0; i < range.lines; i++) {
        const line = leaves[i]
        if (line === undefined || line.leaf !== sealed[i]) {
          return { changed: { leaf: range.leaf + i, start }, equalEnd, lines, prunedRoots: Buffer.alloc(0) }
        }
        start = line.end
        equalEnd = line.end
      }
      lines += range.lines
      const roots = new LeafRange(range.leaf)
      for (const { leaf } of leaves) roots.append(leaf)
      prunedRoots.push(roots.rootBytes())
    }
    return { equalEnd, lines, prunedRoots: Buffer.concat(prunedRoots) }
  } finally {
    if (fd !== undefined) port.closeSync(fd)
  }
}

/** The whole lines in the range, as far as the file has them. */
async function leavesOf(
  port: FileSystem,
  fd: number,
  { start: from, end }: PlacedRange,
): Promise<{ leaf: Digest; end: number }[]> {
  const leaves: { leaf: Digest; end: number }[] = []
  const to = endOfLastLine(port, fd, Math.min(end, port.fstatSync(fd).size))
  await hashLines(port, fd, { from, to }, (leaf, lineEnd) => leaves.push({ leaf, end: lineEnd }))
  return leaves
}

// Lines between two turns of the event loop.
const SLICE = 512

export interface SealedDay {
  /** The ranges that count; those after the byte at which a `fault` line resumes do not. */
  ranges: PlacedRange[]
  hasError: boolean
}

/** The sealed ranges of `days` in the journal's first `end` bytes. Reads all of them, so it is for rare cases. */
export async function sealedDays(
  { port, dir }: LogFiles,
  end: number,
  days: ReadonlySet<string>,
): Promise<Map<string, SealedDay>> {
  const found = new Map<string, SealedDay>()
  const of = (day: string) => {
    const known = found.get(day) ?? { ranges: [], hasError: false }
    found.set(day, known)
    return known
  }
  let size = 0
  let count = 0
  for (const { line } of journalLines(port, dir, 0, end)) {
    if (line?.kind === 'seal') {
      for (const range of placeRanges(line.ranges, size)) {
        if (days.has(range.day)) of(range.day).ranges.push(range)
      }
    }
    if (line?.kind === 'fault' && days.has(line.day)) {
      const sealed = of(line.day)
      sealed.hasError = true
      sealed.ranges = sealed.ranges.filter((range) => range.end <= line.resume)
    }
    if (line !== undefined) size = line.leaf + 1
    if (++count % SLICE === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  return found
}
