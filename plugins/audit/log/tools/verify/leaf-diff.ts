// Compares sealed leaves with those of the lines that are there, and names what changed. Leaves are practically unique,
// so the sequences resynchronise at one that occurs in both.

import type { Digest } from '../../format/digest.js'
import type { Findings } from './report.js'

const WINDOWS = [64, 1_024, 16_384, 262_144]

/** A place at which the sequences differ. */
interface Difference {
  /** Index of the first of `removed` among the sealed leaves. */
  readonly sealedAt: number
  readonly removed: readonly Digest[]
  /** Index of the first of `added` among the lines. */
  readonly lineAt: number
  readonly added: readonly Digest[]
  /** Whether no sealed leaf follows. */
  readonly atEnd: boolean
}

export interface ComparedLines {
  readonly file: string
  /** Lines of the file before those that are compared. */
  readonly lineBefore: number
  readonly sealed: readonly Digest[]
  readonly present: readonly Digest[]
  /** Lines, counted from 0, that have a failure already. */
  readonly failedLines: ReadonlySet<number>
  /** Whether each record was checked by itself. */
  readonly judged: boolean
  /** Whether the lines reach to the end of the file, so that new ones may not be sealed yet. */
  readonly isToEnd: boolean
}

/** Reports the changes. Returns the number of lines at the end that are not sealed yet; undefined if too much differs. */
export function reportChanges(lines: ComparedLines, findings: Findings): number | undefined {
  const { file, lineBefore, sealed, failedLines, judged, isToEnd } = lines
  const differences = differencesOf(sealed, lines.present)
  if (differences === undefined) return undefined
  const removed = new Map(
    differences.flatMap((one) => one.removed.map((leaf, i) => [leaf, one.sealedAt + i] as const)),
  )
  const added = new Set(differences.flatMap((one) => one.added))
  const known = new Set(added.size === 0 ? [] : sealed)
  const report = (line: number, kind: 'reordered' | 'replayed', message: string) => {
    findings.tampered(kind)
    findings.fail(file, lineBefore + line + 1, kind, message)
  }
  let unsealed = 0
  for (const difference of differences) {
    const atEnd = difference.atEnd && isToEnd
    const missing = difference.removed.flatMap((leaf, i) =>
      added.has(leaf) ? [] : [difference.sealedAt + i],
    )
    const unknown: number[] = []
    for (const [i, leaf] of difference.added.entries()) {
      const line = difference.lineAt + i
      const from = removed.get(leaf)
      // A caller may append the same record twice; after the end of the sealed lines that is not a failure.
      if (from !== undefined) {
        report(line, 'reordered', `the record was sealed as line ${lineBefore + from + 1}`)
      } else if (known.has(leaf) && !atEnd) {
        report(line, 'replayed', 'a second copy of a record that was sealed once')
      } else if (atEnd && !failedLines.has(line) && (judged || missing.length <= unknown.length)) {
        unsealed++
      } else {
        unknown.push(line)
      }
    }
    reportDifference(lines, { missing, unknown, lineAt: difference.lineAt, atEnd }, findings)
  }
  return unsealed
}

/** Reports what is neither moved nor copied: replaced line by line, else missing or new. */
function reportDifference(
  { file, lineBefore, failedLines }: ComparedLines,
  {
    missing,
    unknown,
    lineAt,
    atEnd,
  }: { missing: readonly number[]; unknown: readonly number[]; lineAt: number; atEnd: boolean },
  findings: Findings,
): void {
  for (const [i, line] of unknown.entries()) {
    const replaced = missing[i]
    const kind = replaced === undefined ? 'inserted' : 'edited'
    findings.tampered(kind)
    if (failedLines.has(line)) continue
    const message =
      replaced === undefined
        ? 'never sealed here'
        : `not the record that was sealed as line ${lineBefore + replaced + 1}`
    findings.fail(file, lineBefore + line + 1, kind, message)
  }
  const rest = missing.slice(unknown.length).map((line) => lineBefore + line + 1)
  if (rest.length === 0) return
  const kind = atEnd ? 'truncated' : 'deleted'
  findings.tampered(kind, rest.length)
  const what = rest.length === 1 ? '1 record is' : `${rest.length} records are`
  const where = atEnd ? 'missing from the end' : 'missing before this line'
  const sealedAs = rest.length === 1 ? `line ${rest[0]}` : `lines ${rest[0]} to ${rest.at(-1)}`
  const line = lineBefore + (unknown.at(-1) ?? lineAt - 1) + 2
  findings.fail(file, line, kind, `${what} ${where}, sealed as ${sealedAs}`)
}

function differencesOf(sealed: readonly Digest[], present: readonly Digest[]): Difference[] | undefined {
  const found: Difference[] = []
  for (let i = 0, j = 0; ; ) {
    while (i < sealed.length && sealed[i] === present[j]) {
      i++
      j++
    }
    const next = nextMatch(sealed, i, present, j)
    if (next === undefined) return undefined
    const { removed, added, atEnd } = next
    const content = { removed: sealed.slice(i, i + removed), added: present.slice(j, j + added) }
    found.push({ sealedAt: i, lineAt: j, atEnd, ...content })
    if (atEnd) return found
    i += removed
    j += added
  }
}

/** How many leaves to skip on either side until both match again: the fewest in the smallest window. */
function nextMatch(sealed: readonly Digest[], i: number, present: readonly Digest[], j: number) {
  const [removed, added] = [sealed.length - i, present.length - j]
  for (const window of removed === 0 ? [] : WINDOWS) {
    const places = new Map<Digest, number>()
    for (let at = Math.min(window, added) - 1; at >= 0; at--) places.set(present[j + at] ?? '', at)
    let best: { removed: number; added: number; atEnd: false } | undefined
    for (let skipped = 0; skipped < Math.min(window, removed); skipped++) {
      const least = best === undefined ? Number.POSITIVE_INFINITY : best.removed + best.added
      if (skipped >= least) break
      const place = places.get(sealed[i + skipped] ?? '')
      if (place !== undefined && skipped + place < least)
        best = { removed: skipped, added: place, atEnd: false }
    }
    if (best !== undefined) return best
    if (removed < window && added < window) break
  }
  const isBounded = removed < (WINDOWS.at(-1) ?? 0)
  return isBounded ? { removed, added, atEnd: true } : undefined
}
