// Finds lines of the journal by their leaves, and reads it backwards, so that its length does not matter.

import { nodeFileSystem } from '../../files/file-system.js'
import type { JournalLine } from '../../format/journal-line.js'
import { journalLines, journalSize } from '../../tree/journal-file.js'

const SCANNED_BYTES = 131_072
const WINDOW_BYTES = 65_536

interface FoundLine {
  readonly line: JournalLine
  /** Offset of its first byte, and after its newline. */
  readonly start: number
  readonly end: number
}

/** The first line that is `leaf` or after it: the one that seals it, unless it is that leaf itself. */
export function journalLineAt(dir: string, leaf: number): FoundLine | undefined {
  const size = journalSize(nodeFileSystem, dir)?.end ?? 0
  let from = 0
  let to = size
  while (to - from > SCANNED_BYTES) {
    const middle = Math.floor((from + to) / 2)
    const found = firstLine(dir, middle, size)
    if (found === undefined || found.line.leaf >= leaf) to = middle
    else from = found.start
  }
  for (const { line, start, end } of journalLines(nodeFileSystem, dir, from, size)) {
    if (line !== undefined && line.leaf >= leaf) return { line, start, end }
  }
  return undefined
}

/** The first line that begins after the byte `from`. */
function firstLine(dir: string, from: number, to: number): FoundLine | undefined {
  for (const { line, start, end } of journalLines(nodeFileSystem, dir, from, to)) {
    // The first one may be the rest of a line.
    if (start !== from && line !== undefined) return { line, start, end }
  }
  return undefined
}

/** The lines before the byte `end`, the last one first; by default all. */
export function* journalBackwards(
  dir: string,
  end = journalSize(nodeFileSystem, dir)?.end ?? 0,
): Generator<JournalLine, void, void> {
  let window = WINDOW_BYTES
  for (let to = end; to > 0; ) {
    const from = Math.max(0, to - window)
    const found: FoundLine[] = []
    for (const { line, start, end } of journalLines(nodeFileSystem, dir, from, to)) {
      if (line !== undefined && (start !== from || from === 0)) found.push({ line, start, end })
    }
    yield* found.reverse().map(({ line }) => line)
    const first = found.at(-1)
    if (first === undefined && from === 0) return
    // Without a whole line in it, the window is in a long line, or in a damaged one.
    window = first === undefined ? window * 4 : WINDOW_BYTES
    to = first?.start ?? to
  }
}
