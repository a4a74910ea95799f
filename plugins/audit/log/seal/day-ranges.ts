// Finds the sealed ranges of days by a pass over the whole journal; for the rare cases that need them.

import type { FileSystem } from '../files/file-system.js'
import { journalLines } from '../tree/journal-file.js'
import { type PlacedRange, placeRanges } from '../tree/seal-ranges.js'

// Lines between two turns of the event loop.
const SLICE = 512

export interface SealedDay {
  /** Those that count: not the ones after the byte at which a fault resumes. */
  ranges: PlacedRange[]
  hasFault: boolean
}

/** What the journal's first `end` bytes state of `days`. */
export async function sealedDays(
  { port, dir }: { readonly port: FileSystem; readonly dir: string },
  end: number,
  days: ReadonlySet<string>,
): Promise<Map<string, SealedDay>> {
  const found = new Map<string, SealedDay>()
  const of = (day: string) => {
    const known = found.get(day) ?? { ranges: [], hasFault: false }
    found.set(day, known)
    return known
  }
  let size = 0
  let count = 0
  for (const { line } of journalLines(port, dir, 0, end)) {
    if (line?.kind === 'seal') {
      for (const range of placeRanges(line.ranges, size)) {
        if (days.has(range.day)) of(range.day).ranges.push(range)
      }
    }
    if (line?.kind === 'fault' && days.has(line.day)) {
      const sealed = of(line.day)
      sealed.hasFault = true
      sealed.ranges = sealed.ranges.filter((range) => range.end <= line.resume)
    }
    if (line !== undefined) size = line.leaf + 1
    if (++count % SLICE === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  return found
}
