// Reads and writes the files of the tree. They are derived: what they hold counts only if it leads to a signed root.

import { dirname, join } from 'node:path'
import {
  DIRECTORY_MODE,
  FILE_MODE,
  type FileSystem,
  nodeFileSystem,
  READ_WRITE_CREATE,
  readExisting,
  syncPath,
  writeFully,
} from '../files/file-system.js'
import type { Digest } from '../format/digest.js'
import { AuditError, systemCode } from '../format/errors.js'
import type { LeafSpan } from '../format/merkle-proof.js'
import { HASH_BYTES, HASHES_PER_FILE, LEVEL_STEP, placeOfHash, TREE_FOLDER } from '../format/tree-layout.js'
import { alignedSubtrees, LeafRange } from '../merkle/leaf-range.js'
import { digestFromBytes, nodeHash } from '../merkle/tree-hash.js'

const HASHES_PER_RUN = 2_048
const LEAVES_PER_READ = 4_096
const UNKNOWN = '\0'.repeat(HASH_BYTES)

export class TreeStore {
  readonly #dir: string
  readonly #port: FileSystem

  constructor(dir: string, port: FileSystem) {
    this.#dir = dir
    this.#port = port
  }

  /** `count` hashes of a stored level from `index` on, as far as the file of `index` has them. */
  hashes(level: number, index: number, count: number): Digest[] {
    const { path, offset } = placeOfHash(level, index)
    const bytes = Buffer.alloc(Math.min(count, HASHES_PER_FILE - (index % HASHES_PER_FILE)) * HASH_BYTES)
    const read = (fd: number) => this.#port.readSync(fd, bytes, 0, bytes.length, offset)
    const got = readExisting(this.#port, join(this.#dir, path), read) ?? 0
    const hashes: Digest[] = []
    for (let at = 0; at + HASH_BYTES <= got; at += HASH_BYTES) hashes.push(digestFromBytes(bytes, at))
    return hashes
  }

  /** The same; undefined unless all of them are known. */
  known(level: number, index: number, count: number): Digest[] | undefined {
    const hashes = this.hashes(level, index, count)
    return hashes.length < count || hashes.includes(UNKNOWN) ? undefined : hashes
  }

  /** The root of the complete subtree `index` of `level`; undefined if hashes are missing. */
  node(level: number, index: number): Digest | undefined {
    const stored = level - (level % LEVEL_STEP)
    const count = 2 ** (level - stored)
    let nodes = this.known(stored, index * count, count) ?? []
    while (nodes.length > 1) {
      const below = nodes
      nodes = Array.from({ length: below.length / 2 }, (_, i) =>
        nodeHash(below[2 * i] ?? '', below[2 * i + 1] ?? ''),
      )
    }
    return nodes[0]
  }

  /** The root of the leaves `[start, end)` of a proof (RFC 6962 §2.1); undefined if hashes are missing. */
  rootOf({ start, end }: LeafSpan): Digest | undefined {
    const roots = alignedSubtrees(start, end).map(({ level, start }) => this.node(level, start / 2 ** level))
    return roots.reduceRight((right, left) =>
      left === undefined || right === undefined ? undefined : nodeHash(left, right),
    )
  }

  /** The range of the first `size` leaves; undefined if hashes are missing. */
  range(size: number): LeafRange | undefined {
    const range = new LeafRange()
    for (const { start, level } of alignedSubtrees(0, size)) {
      const root = this.node(level, start / 2 ** level)
      if (root === undefined) return undefined
      range.append(root, level)
    }
    return range
  }
}

/**
 * The root of each range of leaves, as RFC 6962 §2.1 defines it for a range of a proof.
 *
 * @throws {AuditError} `read_failed` if the tree lacks a hash.
 */
export function rootsOf(port: FileSystem, dir: string, ranges: readonly LeafSpan[]): Digest[] {
  const store = new TreeStore(dir, port)
  return ranges.map((range) => {
    const root = store.rootOf(range)
    if (root !== undefined) return root
    throw new AuditError(
      'read_failed',
      `the tree of ${dir} has no hashes of the leaves ${range.start} to ${range.end - 1}`,
    )
  })
}

/** The leaves `[from, to)` in blocks; ends early if one is not known. */
export function* storedLeaves(dir: string, from: number, to: number): Generator<Digest[], void, void> {
  const store = new TreeStore(dir, nodeFileSystem)
  for (let at = from; at < to; ) {
    const wanted = Math.min(to - at, LEAVES_PER_READ, HASHES_PER_FILE - (at % HASHES_PER_FILE))
    const leaves = store.hashes(0, at, wanted)
    const unknown = leaves.indexOf(UNKNOWN)
    if (unknown >= 0) leaves.length = unknown
    yield leaves
    if (leaves.length < wanted) return
    at += wanted
  }
}

/** Consecutive hashes of one file. */
interface Run {
  readonly level: number
  /** Index of the first hash in `bytes`. */
  readonly index: number
  filled: number
  readonly bytes: Buffer
}

/**
 * Appends leaves to a range, and the hashes that are stored to the files. They stay in memory until `flush`, because
 * the files are shared: hashes of leaves that are not in the journal would replace those of another process.
 */
export class TreeWriter {
  readonly range: LeafRange
  readonly #dir: string
  readonly #port: FileSystem
  readonly #runs: Run[] = []
  /** The last run of each level. */
  readonly #last = new Map<number, Run>()
  #pending = 0
  /** Files and new folders that were written and not synced. */
  readonly #written = new Set<string>()

  constructor(dir: string, port: FileSystem, range: LeafRange) {
    this.#dir = dir
    this.#port = port
    this.range = range
  }

  /** Adds a leaf, or a complete subtree of `level` by its root, whose hashes below are not stored. */
  add(root: Digest, level = 0): void {
    const { range } = this
    if (level % LEVEL_STEP === 0) this.#put(level, range.end / 2 ** level, root)
    const end = range.end + 2 ** level
    range.append(root, level, (node, height) => {
      if (height % LEVEL_STEP === 0) this.#put(height, end / 2 ** height - 1, node)
    })
  }

  /** Hashes that are not in the files. */
  get pending(): number {
    return this.#pending
  }

  /** Writes the hashes to the files. Call it if their leaves are in the journal, or under the lock that appends them. */
  flush(): void {
    for (const run of this.#runs) this.#write(run)
    this.#runs.length = 0
    this.#last.clear()
    this.#pending = 0
  }

  /** Resolves when all hashes that were written are on disk. */
  async sync(): Promise<void> {
    for (const path of this.#written) {
      await syncPath(this.#port, join(this.#dir, path))
      this.#written.delete(path)
    }
  }

  #put(level: number, index: number, hash: Digest): void {
    let run = this.#last.get(level)
    // Subtrees added by their root leave hashes out.
    const follows = run !== undefined && run.index + run.filled === index && index % HASHES_PER_FILE !== 0
    if (run === undefined || !follows || run.filled * HASH_BYTES === run.bytes.length) {
      const bytes = Buffer.allocUnsafeSlow(HASHES_PER_RUN * HASH_BYTES)
      run = { level, index, filled: 0, bytes }
      this.#runs.push(run)
      this.#last.set(level, run)
    }
    run.bytes.write(hash, run.filled * HASH_BYTES, 'binary')
    run.filled++
    this.#pending++
  }

  #write({ level, index, filled, bytes }: Run): void {
    const { path, offset } = placeOfHash(level, index)
    const fd = this.#open(path)
    try {
      this.#written.add(path)
      // A new file's name is durable once its folder is synced.
      if (offset === 0) for (const folder of [dirname(path), TREE_FOLDER, '']) this.#written.add(folder)
      writeFully(this.#port, fd, bytes, 0, filled * HASH_BYTES, offset)
    } finally {
      this.#port.closeSync(fd)
    }
  }

  #open(path: string): number {
    const file = join(this.#dir, path)
    try {
      return this.#port.openSync(file, READ_WRITE_CREATE, FILE_MODE)
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw error
      this.#port.mkdirSync(dirname(file), { recursive: true, mode: DIRECTORY_MODE })
      return this.#port.openSync(file, READ_WRITE_CREATE, FILE_MODE)
    }
  }
}
