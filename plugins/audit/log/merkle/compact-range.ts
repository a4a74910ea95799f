// The state of a growing Merkle tree in O(log n): the roots of its complete subtrees, largest first.

import { type Digest, EMPTY_ROOT, nodeHash } from './tree-hash.js'

export class CompactRange {
  #size = 0
  readonly #roots: Digest[] = []

  /**
   * The range over `size` leaves whose complete subtrees have these roots, largest first.
   *
   * @throws {RangeError} when their number is not the number of bits set in `size`.
   */
  static of(size: number, roots: readonly Digest[]): CompactRange {
    if (roots.length !== subtreesOf(size).length) {
      throw new RangeError(
        `${size} leaves have ${subtreesOf(size).length} complete subtrees, not ${roots.length}`,
      )
    }
    const range = new CompactRange()
    range.#size = size
    range.#roots.push(...roots)
    return range
  }

  get size(): number {
    return this.#size
  }

  /** Adds a leaf. `onNode` is called for each interior node that this completes, lowest first, with its level. */
  append(leaf: Digest, onNode?: (node: Digest, level: number) => void): void {
    this.appendSubtree(leaf, 0, onNode)
  }

  /**
   * Adds the `2^level` leaves of a complete subtree by its root.
   *
   * @throws {RangeError} unless the size is a multiple of `2^level`.
   */
  appendSubtree(root: Digest, level: number, onNode?: (node: Digest, level: number) => void): void {
    if (this.#size % 2 ** level !== 0) {
      throw new RangeError(`no subtree of level ${level} begins at leaf ${this.#size}`)
    }
    let node = root
    let height = level
    // Each complete pair merges into its parent: one per trailing one bit of the size before.
    for (let rest = this.#size / 2 ** level; rest % 2 === 1; rest = (rest - 1) / 2) {
      node = nodeHash(this.#roots.pop() ?? '', node)
      onNode?.(node, ++height)
    }
    this.#roots.push(node)
    this.#size += 2 ** level
  }

  /** The tree's root (RFC 6962 §2.1). */
  root(): Digest {
    const roots = this.#roots
    let root = roots.at(-1)
    if (root === undefined) return EMPTY_ROOT
    for (let at = roots.length - 2; at >= 0; at--) root = nodeHash(roots[at] ?? '', root)
    return root
  }
}

/** The complete subtrees of a tree of `size` leaves, largest first. */
export function subtreesOf(size: number): { readonly start: number; readonly level: number }[] {
  const levels: number[] = []
  for (let rest = size, level = 0; rest > 0; rest = Math.floor(rest / 2), level++) {
    if (rest % 2 === 1) levels.push(level)
  }
  let start = 0
  return levels.reverse().map((level) => {
    const subtree = { start, level }
    start += 2 ** level
    return subtree
  })
}
