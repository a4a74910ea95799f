// Joins the hashes of ranges and journal lines and compares the roots with the signed ones. Where they differ, the
// stored leaves, if they lead to the signed root, show which ranges and lines have changed.

import { LeafRange, type SubtreeRoot } from '../../merkle/leaf-range.js'
import type { Digest } from '../../merkle/tree-hash.js'
import { storedLeaves } from '../../tree/tree-store.js'

// Beyond this the rest of the log is not compared any more, so that memory stays bounded.
const MAX_PARTS = 100_000

/** Consecutive leaves with one source. */
export interface Part<S> {
  readonly first: number
  readonly end: number
  /** Undefined where what is on disk is not the stated number of whole lines, or is missing. */
  readonly subtrees: readonly SubtreeRoot[] | undefined
  readonly source: S
}

/** A root over the leaves `[0, size)`. */
export interface Claim {
  readonly size: number
  readonly root: Digest
  /** Whether a trusted key signed it; asked only where the root differs. */
  readonly isSigned: () => boolean
  /** Called where another signed root shows that this one is not of this log. */
  readonly refuted: () => void
}

/**
 * A state of the leaves on disk that a root agrees with, as the number of parts since leaf 0; if the root is signed it
 * confirms them.
 */
export type Mark = number

export interface Agreement<S> {
  /** Since the claim that was confirmed before. */
  readonly parts: readonly Part<S>[]
  /** Those that differ from the stored leaves, which lead to the signed root. */
  readonly changed: ReadonlySet<Part<S>>
}

export class TreeCheck<S> {
  readonly #dir: string
  #agreed = new LeafRange()
  /** Undefined while the parts since `#agreed` cannot be joined. */
  #current: LeafRange | undefined = new LeafRange()
  /** The stored leaves since `#agreed`; undefined while they are not needed. */
  #stored: LeafRange | undefined
  #parts: Part<S>[] = []
  /** Number of parts before `#parts`. */
  #agreedParts = 0
  #disputed: Claim[] = []
  #overflown = false

  constructor(dir: string) {
    this.#dir = dir
  }

  /** Adds the leaves that follow. */
  add(part: Part<S>): void {
    if (this.#parts.length >= MAX_PARTS) this.#overflown = true
    this.#parts.push(part)
    if (part.subtrees === undefined) this.#current = undefined
    else this.#current?.appendAll(part.subtrees)
  }

  /** Undefined unless `root` is that of the leaves so far. */
  mark(root: Digest): Mark | undefined {
    if (this.#overflown || this.#current?.root() !== root) return undefined
    return this.#agreedParts + this.#parts.length
  }

  /** The root of the mark is signed. */
  confirm(mark: Mark): Agreement<S> {
    const count = mark - this.#agreedParts
    if (count <= 0) return { parts: [], changed: new Set() }
    const range = this.#agreed.copy()
    for (const { subtrees } of this.#parts.slice(0, count)) range.appendAll(subtrees ?? [])
    return { parts: this.#agree(range, count), changed: new Set() }
  }

  /** Compares the stored leaves with a signed root that is not that of the leaves on disk. */
  settle(claim: Claim): Agreement<S> | undefined {
    if (this.#overflown) return undefined
    if (this.#parts.length === 0) {
      claim.refuted()
      return undefined
    }
    const stored = this.#storedTo(claim.size)
    if (stored?.root() !== claim.root) {
      this.#disputed.push(claim)
      return undefined
    }
    const parts = this.#agree(stored, this.#parts.length)
    this.#current = stored.copy()
    return { parts, changed: new Set(parts.filter((part) => !this.#isStored(part))) }
  }

  /** What no signed root has confirmed: all parts since the last one that agreed, and the first claim that differs. */
  finish(): {
    readonly parts: readonly Part<S>[]
    readonly from: number
    readonly disputed: readonly Claim[]
  } {
    return { parts: this.#parts, from: this.#agreed.end, disputed: this.#disputed }
  }

  /** Returns the next `count` parts, which `range` covers. */
  #agree(range: LeafRange, count: number): Part<S>[] {
    const isRefuted = ({ size }: Claim) => size <= range.end
    for (const claim of this.#disputed.filter(isRefuted)) claim.refuted()
    this.#disputed = this.#disputed.filter((claim) => !isRefuted(claim))
    const parts = this.#parts
    this.#parts = parts.slice(count)
    this.#agreedParts += count
    this.#agreed = range
    this.#stored = undefined
    return parts.slice(0, count)
  }

  #storedTo(size: number): LeafRange | undefined {
    const stored = this.#stored ?? this.#agreed.copy()
    this.#stored = stored
    for (const leaves of storedLeaves(this.#dir, stored.end, size)) {
      for (const leaf of leaves) stored.append(leaf)
    }
    return stored.end === size ? stored : undefined
  }

  #isStored({ first, end, subtrees }: Part<S>): boolean {
    if (subtrees === undefined) return false
    const stored = new LeafRange(first)
    for (const leaves of storedLeaves(this.#dir, first, end)) for (const leaf of leaves) stored.append(leaf)
    return (
      stored.subtrees.length === subtrees.length &&
      stored.subtrees.every(({ root }, at) => root === subtrees[at]?.root)
    )
  }
}
