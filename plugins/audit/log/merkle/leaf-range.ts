// A growing range of leaves in O(log n): the roots of the fewest aligned complete subtrees that tile it. Ranges are hashed
// on threads and joined in order; one from leaf 0 has the root of its tree.

import type { Digest } from '../format/digest.js'
import { digestsToBytes, EMPTY_ROOT, nodeHash } from './tree-hash.js'

export interface SubtreeRoot {
  readonly root: Digest
  /** It covers `2^level` leaves. */
  readonly level: number
}

export class LeafRange {
  #subtrees: SubtreeRoot[] = []
  #end: number

  constructor(readonly start = 0) {
    this.#end = start
  }

  /** Index after the last leaf. */
  get end(): number {
    return this.#end
  }

  /** The subtrees in the order of their leaves. */
  get subtrees(): readonly SubtreeRoot[] {
    return this.#subtrees
  }

  copy(): LeafRange {
    const copy = new LeafRange(this.start)
    copy.#end = this.#end
    copy.#subtrees = [...this.#subtrees]
    return copy
  }

  /**
   * Appends a complete subtree, by default one leaf. `onNode` is called for each interior node that this completes, lowest
   * first, with its level.
   *
   * @throws {RangeError} unless the first leaf of the subtree is a multiple of its size.
   */
  append(root: Digest, level = 0, onNode?: (node: Digest, level: number) => void): void {
    const width = 2 ** level
    if (this.#end % width !== 0) throw new RangeError(`no subtree of ${width} leaves begins at ${this.#end}`)
    this.#end += width
    let top = root
    let height = level
    for (let left = this.#subtrees.at(-1); left?.level === height; left = this.#subtrees.at(-1)) {
      if (this.#end % 2 ** (height + 1) !== 0) break
      this.#subtrees.pop()
      top = nodeHash(left.root, top)
      height++
      onNode?.(top, height)
    }
    this.#subtrees.push({ root: top, level: height })
  }

  appendAll(subtrees: readonly SubtreeRoot[]): void {
    for (const { root, level } of subtrees) this.append(root, level)
  }

  /** The roots of the subtrees, 32 bytes each. */
  rootBytes(): Uint8Array<ArrayBuffer> {
    return digestsToBytes(this.#subtrees.map(({ root }) => root))
  }

  /** The root of the tree over `[0, end)` (RFC 6962 §2.1). */
  root(): Digest {
    if (this.start !== 0) throw new RangeError('only a range from leaf 0 has the root of a tree')
    const subtrees = this.#subtrees
    let root = subtrees.at(-1)?.root
    if (root === undefined) return EMPTY_ROOT
    for (let at = subtrees.length - 2; at >= 0; at--) root = nodeHash(subtrees[at]?.root ?? '', root)
    return root
  }
}

interface Subtree {
  /** Index of its first leaf, a multiple of `2^level`. */
  readonly start: number
  readonly level: number
}

/** The fewest complete subtrees that tile the leaves `[start, end)`, left to right. */
export function alignedSubtrees(start: number, end: number): Subtree[] {
  const subtrees: Subtree[] = []
  for (let at = start; at < end; ) {
    let level = 0
    while (at % 2 ** (level + 1) === 0 && at + 2 ** (level + 1) <= end) level++
    subtrees.push({ start: at, level })
    at += 2 ** level
  }
  return subtrees
}
