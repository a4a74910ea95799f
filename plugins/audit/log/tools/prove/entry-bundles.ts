// Entry bundles of c2sp.org/tlog-tiles: the leaves of a tile themselves, which are records and lines of the journal.

import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { nodeFileSystem, openExisting, READ } from '../../files/file-system.js'
import type { Digest } from '../../format/digest.js'
import { dailyLog } from '../../format/paths.js'
import { type PlacedRange, sealedRanges } from '../../format/seal-ranges.js'
import { digestsToBytes, leafHash } from '../../merkle/tree-hash.js'
import { journalLines } from '../../tree/journal-file.js'
import { hashLines } from '../../tree/read-lines.js'

/** The length of an entry stands before it in two bytes. */
const MAX_ENTRY_BYTES = 65_535

export interface EntryBundle {
  /** Relative to the published directory, as is the path of the tile with the hashes of its leaves. */
  readonly path: string
  readonly tile: string
  readonly first: number
  readonly width: number
}

interface Leaf {
  readonly index: number
  readonly hash: Digest
  readonly line: Buffer
}

/**
 * Writes those of the bundles, in the order of their leaves, that are not in `out`. A bundle is left out if a leaf of it is
 * too long or not there, as that of a removed day, or if the leaves are not those of the published tile.
 *
 * @returns the number of bundles that were written, and the paths of those that were left out.
 */
export async function publishEntries(
  dir: string,
  out: string,
  bundles: readonly EntryBundle[],
  write: (path: string, bytes: Uint8Array) => void,
): Promise<{ written: number; absent: string[] }> {
  const missing = bundles.filter(
    ({ path }) => statSync(join(out, path), { throwIfNoEntry: false }) === undefined,
  )
  const absent = new Set(missing.map(({ path }) => path))
  let [at, leaves]: [number, Leaf[]] = [0, []]
  for await (const leaf of leavesFrom(dir, missing)) {
    while (leaf.index >= endOf(missing[at])) {
      at++
      leaves = []
    }
    const bundle = missing[at]
    if (bundle === undefined) break
    if (leaf.index < bundle.first) continue
    leaves.push(leaf)
    const bytes = leaves.length === bundle.width ? bundleOf(leaves, join(out, bundle.tile)) : undefined
    if (bytes === undefined) continue
    write(join(out, bundle.path), bytes)
    absent.delete(bundle.path)
  }
  return { written: missing.length - absent.size, absent: [...absent] }
}

/** The bytes of the bundle; undefined if it cannot be published. */
function bundleOf(leaves: readonly Leaf[], tile: string): Buffer | undefined {
  const isPublished = statSync(tile, { throwIfNoEntry: false }) !== undefined
  const hashes = digestsToBytes(leaves.map(({ hash }) => hash))
  if (!isPublished || !hashes.equals(readFileSync(tile))) return undefined
  if (leaves.some(({ line }) => line.length > MAX_ENTRY_BYTES)) return undefined
  return Buffer.concat(
    leaves.flatMap(({ line }) => {
      const length = Buffer.alloc(2)
      length.writeUInt16BE(line.length)
      return [length, line]
    }),
  )
}

/** The leaves of the log, as its files have them now; those of ranges that no bundle needs are left out. */
async function* leavesFrom(dir: string, bundles: readonly EntryBundle[]): AsyncGenerator<Leaf, void, void> {
  const end = endOf(bundles.at(-1))
  let at = 0
  for (const { bytes, line } of bundles.length === 0 ? [] : journalLines(nodeFileSystem, dir, 0, Infinity)) {
    if (line === undefined) continue
    const own = { index: line.leaf, hash: leafHash(bytes), line: Buffer.from(bytes) }
    for (const range of sealedRanges(line)) {
      while (endOf(bundles[at]) <= range.leaf) at++
      const first = bundles[at]?.first ?? Infinity
      if (first < range.leaf + range.lines) yield* await leavesOf(dir, range)
    }
    yield own
    if (line.leaf + 1 >= end) return
  }
}

/** The lines of a sealed range, as far as the file has them. */
async function leavesOf(dir: string, { day, start, end, leaf }: PlacedRange): Promise<Leaf[]> {
  const leaves: Leaf[] = []
  const fd = openExisting(nodeFileSystem, join(dir, dailyLog(day)), READ)
  if (fd === undefined) return leaves
  try {
    await hashLines(nodeFileSystem, fd, { from: start, to: end }, (hash, _end, bytes) => {
      leaves.push({ index: leaf + leaves.length, hash, line: Buffer.from(bytes) })
    })
  } catch (error) {
    // The file has become shorter: the bundles of its lines are absent.
    if (!(error instanceof RangeError)) throw error
  } finally {
    nodeFileSystem.closeSync(fd)
  }
  return leaves
}

function endOf(bundle: EntryBundle | undefined): number {
  return bundle === undefined ? Infinity : bundle.first + bundle.width
}
