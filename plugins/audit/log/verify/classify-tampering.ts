// From the differences between what was sealed and what is there to what was done to the log.

import type { Digest } from '../merkle/tree-hash.js'
import type { Findings } from './findings.js'
import type { Hunk } from './leaf-diff.js'
import type { Leaves } from './sealed-leaves.js'

export interface TamperedLog {
  readonly file: string
  readonly hunks: readonly Hunk[]
  readonly sealed: Leaves
  /** Lines, counted from 0, that were found at fault by themselves and need no second failure. */
  readonly flawed: ReadonlySet<number>
  /** Whether records were judged by themselves at all. */
  readonly judged: boolean
}

/** Reports what was done. Returns how many lines at the end are not sealed yet. */
export function nameTampering(log: TamperedLog, findings: Findings): number {
  const { file, hunks, flawed } = log
  const removed = placesOf(
    hunks,
    (hunk) => hunk.removed,
    (hunk) => hunk.sealedAt,
  )
  const added = placesOf(
    hunks,
    (hunk) => hunk.added,
    (hunk) => hunk.logAt,
  )
  const copied = copiesIn(log.sealed, added, removed)
  let unsealed = 0
  for (const hunk of hunks) {
    const gone = hunk.removed.flatMap((leaf, i) => (added.has(leaf) ? [] : [hunk.sealedAt + i]))
    const fresh: number[] = []
    for (const [i, leaf] of hunk.added.entries()) {
      const line = hunk.logAt + i
      const place = { file, line: line + 1 }
      const from = removed.get(leaf)
      // A caller may append the same record twice; after the end nothing says that it did not.
      if (from !== undefined) {
        findings.tampered('reordered', 1)
        findings.fail({ ...place, kind: 'reordered', message: `the record was sealed as line ${from + 1}` })
      } else if (copied.has(leaf) && !hunk.atEnd) {
        findings.tampered('duplicated', 1)
        findings.fail({
          ...place,
          kind: 'duplicated',
          message: 'a second copy of a record that was sealed once',
        })
      } else if (hunk.atEnd && !flawed.has(line) && (log.judged || gone.length <= fresh.length)) {
        unsealed++
      } else {
        fresh.push(line)
      }
    }
    nameHunk(log, hunk, { gone, fresh }, findings)
  }
  return unsealed
}

/** Names what is neither moved nor copied: replaced line by line, else missing or new. */
function nameHunk(
  { file, flawed }: TamperedLog,
  hunk: Hunk,
  { gone, fresh }: { gone: readonly number[]; fresh: readonly number[] },
  findings: Findings,
): void {
  const both = Math.min(gone.length, fresh.length)
  for (const [i, line] of fresh.entries()) {
    const kind = i < both ? 'edited' : 'inserted'
    findings.tampered(kind, 1)
    if (flawed.has(line)) continue
    const message =
      kind === 'edited' ? `not the record that was sealed as line ${(gone[i] ?? 0) + 1}` : 'never sealed here'
    findings.fail({ file, line: line + 1, kind, message })
  }
  const missing = gone.slice(both)
  const [first, last] = [missing[0], missing.at(-1)]
  if (first === undefined || last === undefined) return
  const kind = hunk.atEnd ? 'truncated' : 'deleted'
  findings.tampered(kind, missing.length)
  const line = (fresh.at(-1) ?? hunk.logAt - 1) + 2
  const sealedAs = first === last ? `line ${first + 1}` : `lines ${first + 1} to ${last + 1}`
  const what = missing.length === 1 ? '1 record is' : `${missing.length} records are`
  const where = hunk.atEnd ? 'missing from the end' : 'missing before this line'
  findings.fail({ file, line, kind, message: `${what} ${where}, sealed as ${sealedAs}` })
}

function placesOf(
  hunks: readonly Hunk[],
  leaves: (hunk: Hunk) => readonly Digest[],
  start: (hunk: Hunk) => number,
): Map<Digest, number> {
  const places = new Map<Digest, number>()
  for (const hunk of hunks) for (const [i, leaf] of leaves(hunk).entries()) places.set(leaf, start(hunk) + i)
  return places
}

/** Of the added leaves, those that stand elsewhere among the sealed ones. */
function copiesIn(
  sealed: Leaves,
  added: ReadonlyMap<Digest, number>,
  removed: ReadonlyMap<Digest, number>,
): Set<Digest> {
  const copies = new Set<Digest>()
  if (added.size === 0) return copies
  for (const some of sealed()) {
    for (const leaf of some) if (added.has(leaf) && !removed.has(leaf)) copies.add(leaf)
  }
  return copies
}
