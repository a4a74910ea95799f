// The tree of a log as tiles of c2sp.org/tlog-tiles, which clients of transparency logs read: hashes only, unless the
// entries are wanted. A tile has as many levels as lie between two that the log stores, so its bytes are those of the log's own files.
import { existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { nodeFileSystem, openExisting, READ } from '../../files/file-system.js'
import { readCheckpoint } from '../../format/check-proof.js'
import type { Head } from '../../format/checkpoint.js'
import type { Digest } from '../../format/digest.js'
import { AuditError } from '../../format/errors.js'
import {
  coveredBy,
  type JournalLine,
  LEAVES_PER_PIECE,
  type PlacedRange,
  sealedRanges,
} from '../../format/journal-line.js'
import { dailyLog } from '../../format/paths.js'
import { HASH_BYTES, LEVEL_STEP } from '../../format/tree-layout.js'
import { alignedSubtrees, LeafRange } from '../../merkle/leaf-range.js'
import { digestsToBytes, leafHash } from '../../merkle/tree-hash.js'
import { journalLines } from '../../tree/journal-file.js'
import { hashLines } from '../../tree/read-lines.js'
import { addSealedLeaves, type CoverOffsets } from '../../tree/sealed-leaves.js'
import { TreeStore, TreeWriter } from '../../tree/tree-store.js'
import { Prover } from './prove.js'

// Entry bundles of c2sp.org/tlog-tiles: the leaves of a tile themselves, which are records and lines of the journal.

/** The length of an entry stands before it in two bytes. */
const MAX_ENTRY_BYTES = 65_535

interface EntryBundle {
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
async function publishEntries(
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

// The first leaves of a log as a range, also where files of the tree lack a hash: the hashes that stand for a removed day
// may be too large for a tile, and a file may be damaged.

/**
 * The range of the first `size` leaves. Leaves from the first unknown hash on are hashed again from the journal and the
 * days' records, and the covers stand for removed days.
 *
 * @throws {AuditError} `log_unlinked` if the log has neither the hashes nor what they are of.
 */
async function treeEdge(dir: string, size: number): Promise<LeafRange | undefined> {
  const store = new TreeStore(dir, nodeFileSystem)
  const unknown = alignedSubtrees(0, size).find(
    ({ start, level }) => store.node(level, start / 2 ** level) === undefined,
  )
  if (unknown === undefined) return store.range(size)
  // No range of a seal crosses a multiple of it.
  const first = unknown.start - (unknown.start % LEAVES_PER_PIECE)
  const range = store.range(first)
  return range && (await extended(dir, range, size))
}

async function extended(dir: string, range: LeafRange, size: number): Promise<LeafRange> {
  const source = { dir, port: nodeFileSystem }
  const first = range.end
  // Its hashes stay in memory: only the writer of the log changes the files of the tree.
  const writer = new TreeWriter(dir, nodeFileSystem, range)
  const covers: CoverOffsets = new Map()
  for (const { bytes, line } of journalLines(nodeFileSystem, dir, 0, Infinity)) {
    if (line === undefined || line.leaf < first) continue
    if (range.end >= size) break
    const hash = leafHash(bytes)
    await addSealedLeaves(source, rangesFrom(line, first), writer, covers)
    writer.add(hash)
  }
  return range
}

/** The ranges of a seal that begin with the leaf `first` or after it. */
function rangesFrom(line: JournalLine, first: number) {
  let leaf = line.leaf - coveredBy(line)
  return line.kind !== 'seal'
    ? []
    : line.ranges.filter(([, , , lines]) => {
        leaf += lines
        return leaf > first
      })
}

const TILE_HASHES = 2 ** LEVEL_STEP
const CHECKPOINT = 'checkpoint'

export interface PublishedTiles {
  readonly origin: string
  /** Leaves that the checkpoint covers. */
  readonly size: number
  /** Tiles and bundles of entries that were not there before. */
  readonly written: number
  /**
   * Paths of the tiles of which the log does not know a hash, as the removal of a day leaves it, and of the bundles of which it
   * lacks an entry or has one that is too long.
   */
  readonly absent: readonly string[]
}

/**
 * Writes the tiles of the newest checkpoint that a key of the log has signed to the directory `out`, and then the checkpoint.
 * Tiles that are there are not written again, and those of smaller trees stay.
 *
 * @param entries whether the records and lines of the journal themselves are written, too.
 * @throws {AuditError} `not_sealed` without a checkpoint; `log_unlinked` if a hash does not lead to it; `log_changed` if `out`
 * has the checkpoint of another log, of a larger tree, or of one that this log does not continue.
 */
export async function publishTiles(
  dir: string,
  out: string,
  { entries = false }: { readonly entries?: boolean } = {},
): Promise<PublishedTiles> {
  const { head, signed } = (await Prover.open(dir)).newest
  const { origin, size, root } = head
  const edge = await treeEdge(dir, size)
  if (edge?.root() !== root)
    throw new AuditError('log_unlinked', `the tree of ${dir} does not lead to its newest checkpoint`)
  await requireContinued(dir, out, head)
  const store = new TreeStore(dir, nodeFileSystem)
  const absent: string[] = []
  let written = 0
  // From the root down: the hashes that a tile leads to are checked before it is written.
  const tiles = tilesOf(size)
  for (const tile of tiles.toReversed()) {
    const { path, level, index, width } = tile
    if (statSync(join(out, path), { throwIfNoEntry: false })?.size === width * HASH_BYTES) continue
    const hashes = store.known(level * LEVEL_STEP, index * TILE_HASHES, width)
    const expected = hashes && rootsAbove(store, edge, tile)
    if (hashes === undefined || expected === undefined) {
      absent.push(path)
      continue
    }
    const range = new LeafRange()
    for (const digest of hashes) range.append(digest)
    if (range.subtrees.map((subtree) => subtree.root).join('') !== expected)
      throw new AuditError('log_unlinked', `the hashes of ${path} do not lead to the newest checkpoint`)
    write(join(out, path), digestsToBytes(hashes))
    written++
  }
  const bundles = entries
    ? await publishEntries(dir, out, bundlesOf(tiles), write)
    : { written: 0, absent: [] }
  write(join(out, CHECKPOINT), Buffer.from(signed))
  absent.reverse().push(...bundles.absent)
  return { origin, size, written: written + bundles.written, absent }
}

interface Tile {
  readonly path: string
  readonly level: number
  readonly index: number
  /** Number of hashes. */
  readonly width: number
}

function tilesOf(size: number): Tile[] {
  const tiles: Tile[] = []
  for (let level = 0, count = size; count > 0; level++, count = Math.floor(count / TILE_HASHES)) {
    for (let index = 0; index * TILE_HASHES < count; index++) {
      const width = Math.min(TILE_HASHES, count - index * TILE_HASHES)
      tiles.push({ path: tilePath(level, index, width), level, index, width })
    }
  }
  return tiles
}

function bundlesOf(tiles: readonly Tile[]): EntryBundle[] {
  const ofLeaves = tiles.filter(({ level }) => level === 0)
  return ofLeaves.map(({ path: tile, index, width }) => {
    return { path: tilePath('entries', index, width), tile, first: index * TILE_HASHES, width }
  })
}

/** The path of a tile; one of fewer hashes than a whole tile is a partial one. */
function tilePath(level: number | 'entries', index: number, width: number): string {
  const digits = String(index)
  const groups = digits.padStart(Math.ceil(digits.length / 3) * 3, '0').match(/.{3}/g) ?? []
  const name = groups.map((group, at) => (at < groups.length - 1 ? `x${group}` : group)).join('/')
  return `tile/${level}/${name}${width === TILE_HASHES ? '' : `.p/${width}`}`
}

/**
 * The hashes to which those of the tile lead: for a whole tile the one in the tile above it, for a partial one those at the
 * edge of the tree. Undefined if the one above is not known.
 */
function rootsAbove(store: TreeStore, edge: LeafRange, { level, index, width }: Tile): string | undefined {
  const above = (level + 1) * LEVEL_STEP
  if (width === TILE_HASHES) return store.known(above, index, 1)?.[0]
  return edge.subtrees
    .filter((subtree) => subtree.level >= level * LEVEL_STEP && subtree.level < above)
    .map((subtree) => subtree.root)
    .join('')
}

/** The published checkpoint is never replaced by one that clients would refuse. */
async function requireContinued(dir: string, out: string, { origin, size }: Head): Promise<void> {
  const path = join(out, CHECKPOINT)
  if (!existsSync(path)) return
  const known = readCheckpoint(readFileSync(path, 'utf8'))
  const isContinued =
    known?.origin === origin && known.size <= size && (await treeEdge(dir, known.size))?.root() === known.root
  if (!isContinued)
    throw new AuditError(
      'log_changed',
      `the log does not continue the checkpoint that is published at ${path}`,
    )
}

/** Writes a file that readers see whole. */
function write(path: string, bytes: Uint8Array): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(`${path}.new`, bytes)
  renameSync(`${path}.new`, path)
}
