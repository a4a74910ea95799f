// Joins the hashes of ranges and journal lines and compares the roots with the signed ones. If they differ, the
// stored leaves, if they lead to the signed root, show which ranges and lines have changed.

import type { Digest } from '../../format/digest.js'
import type { PlacedRange } from '../../format/journal-line.js'
import { LeafRange, type SubtreeRoot } from '../../merkle/leaf-range.js'
import { storedLeaves } from '../../tree/tree-store.js'
import type { JournalEntry } from './journal-walk.js'
import type { ChunkResult } from './scan-chunk.js'

// Beyond this the rest of the log is not compared, so that memory stays bounded.
const MAX_PARTS = 100_000

/** Consecutive leaves: a journal line, a sealed range, or neither if no journal line covers them. */
export interface Part {
  readonly first: number
  readonly end: number
  readonly entry?: JournalEntry
  readonly range?: PlacedRange
  /** The scan of a range whose file exists. */
  scan?: ChunkResult | undefined
  /** Roots of the leaves on disk; undefined if these are missing or are not the stated number of whole lines. */
  subtrees?: readonly SubtreeRoot[] | undefined
}

/** A root over the leaves `[0, size)`. */
export interface Claim {
  readonly size: number
  readonly root: Digest
  /** Whether a trusted key signed it; asked only if the root differs. */
  readonly isSigned: () => boolean
  /** Called when another signed root shows that this one is not of the log. */
  readonly refuted: () => void
}

/** A state of the leaves on disk that a root agrees with; if the root is signed it confirms them. */
export interface Mark {
  /** Number of parts since leaf 0. */
  readonly parts: number
  readonly range: LeafRange
}

export interface Agreement {
  /** The parts since the last confirmed claim. */
  readonly parts: readonly Part[]
  /** The parts that differ from the stored leaves, which lead to the signed root. */
  readonly changed: ReadonlySet<Part>
}

export class TreeCheck {
  readonly #dir: string
  #agreed: LeafRange
  /** The range of the leaves on disk; undefined while the parts since `#agreed` cannot be joined. */
  #current: LeafRange | undefined
  /** The stored leaves since `#agreed`; undefined while they are not needed. */
  #stored: LeafRange | undefined
  readonly #parts: Part[] = []
  /** Number of parts before `#parts`. */
  #agreedParts = 0
  #disputed: Claim[] = []
  #overflown = false

  /** @param known the leaves that an earlier verification has compared. */
  constructor(dir: string, known = new LeafRange()) {
    this.#dir = dir
    this.#agreed = known
    this.#current = known.copy()
  }

  /** The parts since the last signed root that agreed. */
  get parts(): readonly Part[] {
    return this.#parts
  }

  /** Their first leaf. */
  get from(): number {
    return this.#agreed.end
  }

  /** The signed claims that differ. */
  get disputed(): readonly Claim[] {
    return this.#disputed
  }

  /** Adds the leaves that follow. */
  add(part: Part): void {
    if (this.#parts.length >= MAX_PARTS) this.#overflown = true
    this.#parts.push(part)
    if (part.subtrees === undefined) this.#current = undefined
    else this.#current?.appendAll(part.subtrees)
  }

  /** The state of the leaves so far; undefined unless `root` is theirs. */
  mark(root: Digest): Mark | undefined {
    const current = this.#current
    if (this.#overflown || current?.root() !== root) return undefined
    return { parts: this.#agreedParts + this.#parts.length, range: current.copy() }
  }

  /** The root of the mark is signed. */
  confirm({ parts, range }: Mark): Agreement {
    const count = parts - this.#agreedParts
    return { parts: count > 0 ? this.#agree(range, count) : [], changed: new Set() }
  }

  /** Compares the stored leaves with a signed root that is not that of the leaves on disk. */
  settle(claim: Claim): Agreement | undefined {
    if (this.#overflown) return undefined
    if (this.#parts.length === 0) {
      claim.refuted()
      return undefined
    }
    this.#stored ??= this.#agreed.copy()
    const stored = this.#appendStored(this.#stored, claim.size)
    if (stored.end !== claim.size || stored.root() !== claim.root) {
      this.#disputed.push(claim)
      return undefined
    }
    const parts = this.#agree(stored, this.#parts.length)
    this.#current = stored.copy()
    return { parts, changed: new Set(parts.filter((part) => !this.#isStored(part))) }
  }

  /** Returns the next `count` parts, which `range` covers. */
  #agree(range: LeafRange, count: number): Part[] {
    const disputed = this.#disputed
    this.#disputed = disputed.filter(({ size }) => size > range.end)
    for (const claim of disputed) if (claim.size <= range.end) claim.refuted()
    this.#agreedParts += count
    this.#agreed = range
    this.#stored = undefined
    return this.#parts.splice(0, count)
  }

  #appendStored(range: LeafRange, end: number): LeafRange {
    for (const leaves of storedLeaves(this.#dir, range.end, end))
      for (const leaf of leaves) range.append(leaf)
    return range
  }

  #isStored({ first, end, subtrees }: Part): boolean {
    if (subtrees === undefined) return false
    const stored = this.#appendStored(new LeafRange(first), end).subtrees
    return stored.length === subtrees.length && stored.every(({ root }, at) => root === subtrees[at]?.root)
  }
}
