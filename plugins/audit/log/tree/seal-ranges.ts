// Cuts the new lines of a day into ranges at leaf indices that are multiples of 4096, so that verification has
// pieces for every core.

import type { SealRange } from './journal-line.js'

export const LEAVES_PER_PIECE = 4_096

/** Collects the ranges of one seal, line by line, in the order of the leaves. */
export class RangeCutter {
  readonly ranges: SealRange[] = []
  #leaf: number
  #day = ''
  #start = 0
  #end = 0
  #lines = 0

  /** @param leaf index of the first leaf of the seal. */
  constructor(leaf: number) {
    this.#leaf = leaf
  }

  /** Begins the lines of `day` at the byte `start` of its log. */
  begin(day: string, start: number): void {
    this.#cut()
    this.#day = day
    this.#start = start
    this.#end = start
  }

  /** Adds a line that ends, with its newline, before the byte `end`. */
  add(end: number): void {
    this.#lines++
    this.#leaf++
    this.#end = end
    if (this.#leaf % LEAVES_PER_PIECE === 0) this.#cut()
  }

  /** The ranges; nothing can be added afterwards. */
  finish(): readonly SealRange[] {
    this.#cut()
    return this.ranges
  }

  #cut(): void {
    if (this.#lines === 0) return
    this.ranges.push([this.#day, this.#start, this.#end, this.#lines])
    this.#start = this.#end
    this.#lines = 0
  }
}

/** A range with its place in the tree. */
export interface PlacedRange {
  readonly day: string
  /** Bytes `[start, end)` of the day's log. */
  readonly start: number
  readonly end: number
  readonly lines: number
  /** Index of its first leaf. */
  readonly leaf: number
}

/** Places the ranges of a seal from the leaf `first` on. */
export function placeRanges(ranges: readonly SealRange[], first: number): PlacedRange[] {
  let leaf = first
  return ranges.map(([day, start, end, lines]) => {
    const placed = { day, start, end, lines, leaf }
    leaf += lines
    return placed
  })
}
