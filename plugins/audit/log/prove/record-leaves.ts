// The leaves of records: their places in the daily logs, and the journal lines that sealed them.

import { join } from 'node:path'
import { linesOf } from '../files/lines.js'
import { JOURNAL_FILE } from '../format/paths.js'
import { parseJournalLine } from '../tree/journal-codec.js'
import { placeRanges } from '../tree/seal-ranges.js'

export interface RecordPlace {
  readonly day: string
  /** Line of the day's file, counted from 1. */
  readonly line: number
  /** Byte of the file at which it begins. */
  readonly offset: number
}

/** The leaf of each place; undefined where it is not sealed. Reads the journal once. */
export async function leavesOf(dir: string, places: readonly RecordPlace[]): Promise<(number | undefined)[]> {
  const byDay = new Map<string, number[]>()
  for (const [at, { day }] of places.entries()) byDay.set(day, [...(byDay.get(day) ?? []), at])
  const leaves: (number | undefined)[] = places.map(() => undefined)
  const linesBefore = new Map<string, number>()
  let size = 0
  for await (const { bytes, complete } of linesOf(join(dir, JOURNAL_FILE))) {
    if (!complete) break
    const journal = parseJournalLine(bytes)
    if (journal === undefined) continue
    if (journal.kind === 'seal') {
      for (const { day, start, end, lines, leaf } of placeRanges(journal.ranges, size)) {
        const before = linesBefore.get(day) ?? 0
        for (const at of byDay.get(day) ?? []) {
          const place = places[at]
          if (place === undefined || place.offset < start || place.offset >= end) continue
          leaves[at] = leaf + place.line - 1 - before
        }
        linesBefore.set(day, before + lines)
      }
    }
    size = journal.leaf + 1
  }
  return leaves
}
