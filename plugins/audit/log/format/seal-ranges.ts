// The ranges of a seal. None crosses a leaf index that is a multiple of 4096, so that verification has pieces for every
// core.

import type { JournalLine, SealRange } from './journal-line.js'

export const LEAVES_PER_PIECE = 4_096

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

/** Number of leaves before the journal line that it covers. */
export function coveredBy(line: JournalLine): number {
  return line.kind === 'seal' ? line.ranges.reduce((sum, [, , , lines]) => sum + lines, 0) : 0
}

/** The ranges of a seal, placed in the tree by its own leaf; none for another line. */
export function sealedRanges(line: JournalLine | undefined): PlacedRange[] {
  return line?.kind === 'seal' ? placeRanges(line.ranges, line.leaf - coveredBy(line)) : []
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
