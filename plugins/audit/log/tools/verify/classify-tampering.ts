// Classifies the differences between the sealed leaves and the log.

import type { Digest } from '../../merkle/tree-hash.js'
import type { Findings } from './findings.js'
import type { Hunk } from './leaf-diff.js'

/** Reads the sealed leaves in blocks. */
export type Leaves = () => Iterable<readonly Digest[]>

export interface TamperedLog {
  readonly file: string
  /** Lines of the file before those that are compared. */
  readonly lineBefore: number
  readonly hunks: readonly Hunk[]
  readonly sealed: Leaves
  /** Lines, counted from 0, that have a failure already. */
  readonly failedLines: ReadonlySet<number>
  /** Whether each record was checked by itself. */
  readonly judged: boolean
  /** Whether the lines reach to the end of the file, so that new ones may not be sealed yet. */
  readonly isToEnd: boolean
}

/** Reports the changes. Returns the number of lines at the end that are not sealed yet. */
export function classifyTampering(log: TamperedLog, findings: Findings): number {
  const { file, lineBefore, failedLines } = log
  const hunks = log.isToEnd ? log.hunks : log.hunks.map((hunk) => ({ ...hunk, atEnd: false }))
  const removed = new Map(hunks.flatMap((hunk) => hunk.removed.map((leaf, i) => [leaf, hunk.sealedAt + i])))
  const added = new Set(hunks.flatMap((hunk) => hunk.added))
  const copied = copiesIn(log.sealed, added, removed)
  let unsealed = 0
  for (const hunk of hunks) {
    const missing = hunk.removed.flatMap((leaf, i) => (added.has(leaf) ? [] : [hunk.sealedAt + i]))
    const unknown: number[] = []
    for (const [i, leaf] of hunk.added.entries()) {
      const line = hunk.logAt + i
      const number = lineBefore + line + 1
      const from = removed.get(leaf)
      // A caller may append the same record twice; after the end of the sealed lines that is not a failure.
      if (from !== undefined) {
        findings.tampered('reordered')
        findings.fail(file, number, 'reordered', `the record was sealed as line ${lineBefore + from + 1}`)
      } else if (copied.has(leaf) && !hunk.atEnd) {
        findings.tampered('replayed')
        findings.fail(file, number, 'replayed', 'a second copy of a record that was sealed once')
      } else if (hunk.atEnd && !failedLines.has(line) && (log.judged || missing.length <= unknown.length)) {
        unsealed++
      } else {
        unknown.push(line)
      }
    }
    classifyHunk(log, hunk, { missing, unknown }, findings)
  }
  return unsealed
}

/** Reports what is neither moved nor copied: replaced line by line, else missing or new. */
function classifyHunk(
  { file, lineBefore, failedLines }: TamperedLog,
  hunk: Hunk,
  { missing, unknown }: { missing: readonly number[]; unknown: readonly number[] },
  findings: Findings,
): void {
  const both = Math.min(missing.length, unknown.length)
  for (const [i, line] of unknown.entries()) {
    const kind = i < both ? 'edited' : 'inserted'
    findings.tampered(kind)
    if (failedLines.has(line)) continue
    const message =
      kind === 'edited'
        ? `not the record that was sealed as line ${lineBefore + (missing[i] ?? 0) + 1}`
        : 'never sealed here'
    findings.fail(file, lineBefore + line + 1, kind, message)
  }
  const rest = missing.slice(both)
  const [first, last] = [rest[0], rest.at(-1)]
  if (first === undefined || last === undefined) return
  const kind = hunk.atEnd ? 'truncated' : 'deleted'
  findings.tampered(kind, rest.length)
  const line = lineBefore + (unknown.at(-1) ?? hunk.logAt - 1) + 2
  const sealedAs =
    first === last
      ? `line ${lineBefore + first + 1}`
      : `lines ${lineBefore + first + 1} to ${lineBefore + last + 1}`
  const what = rest.length === 1 ? '1 record is' : `${rest.length} records are`
  const where = hunk.atEnd ? 'missing from the end' : 'missing before this line'
  findings.fail(file, line, kind, `${what} ${where}, sealed as ${sealedAs}`)
}

/** The added leaves that also occur among the sealed ones. */
function copiesIn(
  sealed: Leaves,
  added: ReadonlySet<Digest>,
  removed: ReadonlyMap<Digest, number>,
): Set<Digest> {
  const copies = new Set<Digest>()
  if (added.size === 0) return copies
  for (const some of sealed()) {
    for (const leaf of some) if (added.has(leaf) && !removed.has(leaf)) copies.add(leaf)
  }
  return copies
}
