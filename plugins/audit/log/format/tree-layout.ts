// The layout of the tree's files. Only the leaves and every eighth level are stored: 32.13 bytes a leaf; a node
// between them is computed from at most 128 stored ones. A file is only appended to.

/** Levels between two stored ones. */
export const LEVEL_STEP = 8
/** Hashes in one file: 2 MiB. */
export const HASHES_PER_FILE = 65_536
export const HASH_BYTES = 32
export const TREE_FOLDER = 'tree'

interface HashPlace {
  /** Relative to the log's directory. */
  readonly path: string
  /** Byte in that file. */
  readonly offset: number
}

/** The place of the root of the leaves `[index * 2^level, (index + 1) * 2^level)`; `level` is a stored one. */
export function placeOfHash(level: number, index: number): HashPlace {
  return {
    path: `${TREE_FOLDER}/${level}/${Math.floor(index / HASHES_PER_FILE)}`,
    offset: (index % HASHES_PER_FILE) * HASH_BYTES,
  }
}

/** Hashes of `level` that a tree of `size` leaves has stored. */
function hashesAt(level: number, size: number): number {
  return Math.floor(size / 2 ** level)
}

/** The level and the file's number in `tree/<level>/<k>`; undefined for another path. */
export function parseTreePath(path: string): { readonly level: number; readonly file: number } | undefined {
  const [, level, file] = /^tree\/(0|[1-9]\d?)\/(0|[1-9]\d{0,11})$/.exec(path) ?? []
  if (level === undefined || file === undefined || Number(level) % LEVEL_STEP !== 0) return undefined
  return { level: Number(level), file: Number(file) }
}

/** Bytes that the file `k` of `level` has in a tree of `size` leaves. */
export function treeFileBytes(level: number, k: number, size: number): number {
  const hashes = hashesAt(level, size) - k * HASHES_PER_FILE
  return Math.min(Math.max(hashes, 0), HASHES_PER_FILE) * HASH_BYTES
}
