// The tree of a log as tiles of c2sp.org/tlog-tiles, which clients of transparency logs read: hashes only, unless the
// entries are wanted. A tile has as many levels as lie between two that the log stores, so its bytes are those of the log's own files.

import { existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { nodeFileSystem } from '../../files/file-system.js'
import { readCheckpoint } from '../../format/check-proof.js'
import type { Head } from '../../format/checkpoint.js'
import { AuditError } from '../../format/errors.js'
import { HASH_BYTES, LEVEL_STEP } from '../../format/tree-layout.js'
import { LeafRange } from '../../merkle/leaf-range.js'
import { digestsToBytes } from '../../merkle/tree-hash.js'
import { TreeStore } from '../../tree/tree-store.js'
import { type EntryBundle, publishEntries } from './entry-bundles.js'
import { Prover } from './prove.js'
import { treeEdge } from './tree-edge.js'

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
