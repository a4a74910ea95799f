// Hashes sealed ranges again: to bring a tree forward, and to compare a day with its tree.

import { join } from 'node:path'
import { type FileSystem, openExisting, READ, readExisting } from '../files/file-system.js'
import { endOfLastLine } from '../files/log-file.js'
import { coverFile, dailyLog } from '../format/paths.js'
import { alignedSubtrees } from '../merkle/aligned-subtrees.js'
import { CompactRange } from '../merkle/compact-range.js'
import { DIGEST_BYTES, type Digest, digestFromBytes, digestToBytes } from '../merkle/tree-hash.js'
import type { SealRange } from '../tree/journal-line.js'
import type { PlacedRange } from '../tree/seal-ranges.js'
import { hashLines } from './read-lines.js'
import type { TreeStore, TreeWriter } from './tree-store.js'
import { unlinked } from './unlinked.js'

interface Source {
  readonly dir: string
  readonly port: FileSystem
}

/** How far the cover of each removed day has been used. */
export type CoverOffsets = Map<string, number>

/**
 * Adds the leaves of `ranges`; of a removed day, the roots in its cover.
 *
 * @throws {AuditError} `log_unlinked` where the files do not have those lines.
 */
export async function addSealedLeaves(
  source: Source,
  ranges: readonly SealRange[],
  writer: TreeWriter,
  covers: CoverOffsets,
): Promise<void> {
  const { dir, port } = source
  for (const range of ranges) {
    const [day, , , lines] = range
    const fd = openExisting(port, join(dir, dailyLog(day)), READ)
    if (fd === undefined) {
      addCover(source, [day, lines], writer, covers)
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
    throw unlinked(`sealed records of ${day} are missing`, cause)
  }
  if (found !== lines) throw unlinked(`${lines} records of ${day} were sealed where ${found} lines are`)
}

/** The roots for a range that begins at the writer's end: they follow those of the day's ranges before it. */
function addCover(
  { dir, port }: Source,
  [day, lines]: readonly [string, number],
  writer: TreeWriter,
  covers: CoverOffsets,
): void {
  const start = writer.range.size
  const subtrees = alignedSubtrees(start, start + lines)
  const offset = covers.get(day) ?? 0
  const bytes = Buffer.alloc(subtrees.length * DIGEST_BYTES)
  const got = readExisting(port, join(dir, coverFile(day)), (fd) =>
    port.readSync(fd, bytes, 0, bytes.length, offset),
  )
  if (got !== bytes.length) throw unlinked(`the log of ${day} is missing, and so is its cover`)
  for (const [i, { level }] of subtrees.entries()) writer.add(digestFromBytes(bytes, i * DIGEST_BYTES), level)
  covers.set(day, offset + bytes.length)
}

export interface DayComparison {
  /** Whether the day's log has exactly the sealed lines. */
  readonly isEqual: boolean
  /** Offset after the last line that is as it was sealed, with all before it. */
  readonly equalEnd: number
  readonly lines: number
  /** The content of the day's cover; useful where the day is equal. */
  readonly cover: Buffer
}

/** Compares a day's log with the leaves in the tree files. */
export async function compareDay(
  { dir, port }: Source,
  day: string,
  ranges: readonly PlacedRange[],
  store: TreeStore,
): Promise<DayComparison> {
  const cover: Buffer[] = []
  let equalEnd = 0
  let lines = 0
  const fd = openExisting(port, join(dir, dailyLog(day)), READ)
  if (fd === undefined) return { isEqual: false, equalEnd, lines, cover: Buffer.alloc(0) }
  try {
    for (const range of ranges) {
      const leaves = await leavesOf(port, fd, range)
      const sealed = store.hashes(0, range.leaf, range.lines)
      for (const [i, { leaf, end }] of leaves.entries()) {
        if (leaf !== sealed[i]) break
        equalEnd = end
      }
      lines += range.lines
      if (equalEnd !== range.end || leaves.length !== range.lines) {
        return { isEqual: false, equalEnd, lines, cover: Buffer.alloc(0) }
      }
      cover.push(
        coverOf(
          range.leaf,
          leaves.map(({ leaf }) => leaf),
        ),
      )
    }
    const isEqual = port.fstatSync(fd).size === equalEnd
    return { isEqual, equalEnd, lines, cover: Buffer.concat(cover) }
  } finally {
    port.closeSync(fd)
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

/** The roots of the maximal aligned subtrees over `leaves`, of which the first is leaf `start` of the tree. */
function coverOf(start: number, leaves: readonly Digest[]): Buffer {
  const roots = alignedSubtrees(start, start + leaves.length).map((subtree) => {
    const range = new CompactRange()
    const first = subtree.start - start
    for (const leaf of leaves.slice(first, first + 2 ** subtree.level)) range.append(leaf)
    return digestToBytes(range.root())
  })
  return Buffer.concat(roots)
}
