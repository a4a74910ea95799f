// The sealed ranges of each day in the restored journal, and the leaves of their lines, if the restored hashes of the tree
// lead to the newest checkpoint.

import { nodeFileSystem } from '../../files/file-system.js'
import type { Head } from '../../format/checkpoint.js'
import type { Digest } from '../../format/digest.js'
import { type PlacedRange, sealedRanges } from '../../format/seal-ranges.js'
import { LeafRange } from '../../merkle/leaf-range.js'
import { journalLines } from '../../tree/journal-file.js'
import { storedLeaves } from '../../tree/tree-store.js'

export class SealedLeaves {
  readonly #dir: string
  readonly #head: Head | undefined
  /** The ranges of each day in the order of their bytes. */
  readonly #ranges = new Map<string, PlacedRange[]>()
  #isShown: boolean | undefined
  #last: { readonly range: PlacedRange; readonly leaves: readonly Digest[] } | undefined

  constructor(dir: string, head: Head | undefined) {
    this.#dir = dir
    this.#head = head
    for (const { line } of journalLines(nodeFileSystem, dir, 0, Number.POSITIVE_INFINITY)) {
      for (const range of sealedRanges(line)) {
        const known = this.#ranges.get(range.day) ?? []
        this.#ranges.set(range.day, known)
        known.push(range)
      }
    }
  }

  /** The end of the sealed bytes of the day. */
  endOf(day: string): number {
    return this.#ranges.get(day)?.at(-1)?.end ?? 0
  }

  rangesOf(day: string): readonly PlacedRange[] {
    return this.#ranges.get(day) ?? []
  }

  /** The leaves of a range; undefined if they are not known. */
  leavesOf(range: PlacedRange): readonly Digest[] | undefined {
    this.#isShown ??= this.#leadToHead()
    if (!this.#isShown) return undefined
    const { leaf, lines } = range
    if (this.#last?.range !== range) {
      this.#last = { range, leaves: [...storedLeaves(this.#dir, leaf, leaf + lines)].flat() }
    }
    return this.#last.leaves
  }

  #leadToHead(): boolean {
    if (this.#head === undefined) return false
    const tree = new LeafRange()
    for (const block of storedLeaves(this.#dir, 0, this.#head.size)) {
      for (const leaf of block) tree.append(leaf)
    }
    return tree.end === this.#head.size && tree.root() === this.#head.root
  }
}
