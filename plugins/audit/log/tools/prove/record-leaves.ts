// The leaves of records: their places in the daily logs, and the journal lines that sealed them.

import { join } from 'node:path'
import { lineBlocksOf } from '../../files/lines.js'
import { parseJournalLine } from '../../format/journal-codec.js'
import { JOURNAL_FILE } from '../../format/paths.js'
import { type PlacedRange, sealedRanges } from '../../format/seal-ranges.js'

// More days than this are found faster by parsing every line.
const MAX_STARTS = 4

export interface LinePosition {
  readonly day: string
  /** Line of the day's file, counted from 1. */
  readonly line: number
  /** Byte of the file at which it begins. */
  readonly offset: number
}

/** The leaf of each place; undefined if it is not sealed. Reads the journal once, and no further than needed. */
export async function leavesOf(
  dir: string,
  places: readonly LinePosition[],
): Promise<(number | undefined)[]> {
  const search = new LeafSearch(places)
  for await (const lines of lineBlocksOf(join(dir, JOURNAL_FILE))) {
    for (const { bytes, complete } of lines) {
      if (!complete || !search.mayNeed(bytes)) continue
      for (const range of sealedRanges(parseJournalLine(bytes))) search.take(range)
      if (search.isDone) return search.leaves
    }
  }
  return search.leaves
}

class LeafSearch {
  readonly leaves: (number | undefined)[]
  readonly #places: readonly LinePosition[]
  /** Indices of the places whose leaf is not known. */
  readonly #open = new Map<string, Set<number>>()
  readonly #linesBefore = new Map<string, number>()
  /** How a range of a day begins; undefined for too many days. */
  readonly #starts: readonly Buffer[] | undefined

  constructor(places: readonly LinePosition[]) {
    this.#places = places
    this.leaves = places.map(() => undefined)
    for (const [at, { day }] of places.entries()) {
      this.#open.set(day, (this.#open.get(day) ?? new Set()).add(at))
    }
    const days = [...this.#open.keys()]
    this.#starts = days.length > MAX_STARTS ? undefined : days.map((day) => Buffer.from(`["${day}",`))
  }

  get isDone(): boolean {
    return this.#open.size === 0
  }

  /** Whether the journal line may have a range of a requested day. */
  mayNeed(line: Buffer): boolean {
    return this.#starts?.some((start) => line.includes(start)) ?? true
  }

  take({ day, start, end, lines, leaf }: PlacedRange): void {
    const before = this.#linesBefore.get(day) ?? 0
    this.#linesBefore.set(day, before + lines)
    const open = this.#open.get(day)
    if (open === undefined) return
    for (const at of open) {
      const place = this.#places[at]
      if (place === undefined || place.offset < start || place.offset >= end) continue
      this.leaves[at] = leaf + place.line - 1 - before
      open.delete(at)
    }
    if (open.size === 0) this.#open.delete(day)
  }
}
