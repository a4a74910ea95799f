// The sequence numbers of a day's records: each writer session counts its records of a day from 0, so a number that
// occurs twice is a replay, and one that is missing is a record that never reached the tree.

import type { LineFailure } from '../../format/check-line.js'
import { recordPlace } from '../../format/stored-record.js'

/** Consecutive numbers of one session, in the order of the log. */
export interface NumberRun {
  readonly session: string
  readonly from: number
  /** End of the numbers, exclusive. */
  readonly to: number
}

/** Collects runs while the numbers of each session grow by one. */
export class RunCollector {
  readonly #open = new Map<string, { from: number; to: number }>()
  readonly runs: NumberRun[] = []
  /** Numbers that records of the same session named as never written. */
  readonly lost: NumberRun[] = []

  /** Adds the place of a record. Returns why it is malformed, or undefined. */
  addRecord(record: Record<string, unknown>): LineFailure | undefined {
    const place = recordPlace(record)
    if (place === undefined) return { kind: 'bad_sequence', message: 'seq or lost is missing or malformed' }
    const { session, number, lost } = place
    for (const [first, last] of lost) this.lost.push({ session, from: first, to: last + 1 })
    const run = this.#open.get(session)
    if (run?.to === number) {
      run.to++
      return undefined
    }
    if (run !== undefined) this.runs.push({ session, ...run })
    this.#open.set(session, { from: number, to: number + 1 })
    return undefined
  }

  finish(): this {
    for (const [session, run] of this.#open) this.runs.push({ session, ...run })
    this.#open.clear()
    return this
  }
}

/** Numbers that are missing so far. */
interface Gap {
  readonly from: number
  readonly to: number
  /** Whether a sealed record follows, so that the missing ones cannot still arrive. */
  readonly isSealed: boolean
}

interface Session {
  /** One past the largest number. */
  next: number
  readonly gaps: Gap[]
}

/** Joins the runs of a day, in the order of the log. */
export class DaySequences {
  readonly #sessions = new Map<string, Session>()
  #hasReplays = false

  /** Returns false if a number has occurred before. */
  add({ session, from, to }: NumberRun, isSealed: boolean): boolean {
    const known = this.#sessions.get(session) ?? { next: 0, gaps: [] }
    this.#sessions.set(session, known)
    if (from > known.next) known.gaps.push({ from: known.next, to: from, isSealed })
    const repeatable = Math.max(0, Math.min(to, known.next) - from)
    const isNew = fill(known, from, to) === repeatable
    known.next = Math.max(known.next, to)
    this.#hasReplays ||= !isNew
    return isNew
  }

  /** A record states that these were never written. */
  excuse({ session, from, to }: NumberRun): void {
    const known = this.#sessions.get(session)
    if (known !== undefined) fill(known, from, to)
  }

  /** The numbers before sealed records that neither occurred nor were named as lost. */
  get missing(): NumberRun[] {
    return [...this.#sessions].flatMap(([session, { gaps }]) =>
      gaps.filter(({ isSealed }) => isSealed).map(({ from, to }) => ({ session, from, to })),
    )
  }

  get hasFailed(): boolean {
    return this.#hasReplays || this.missing.length > 0
  }
}

/** Removes `[from, to)` from the session's gaps, which ascend; returns how many of these numbers lay in one. */
function fill({ gaps }: Session, from: number, to: number): number {
  let [first, after] = [0, gaps.length]
  while (first < after) {
    const middle = (first + after) >>> 1
    if ((gaps[middle]?.to ?? 0) > from) after = middle
    else first = middle + 1
  }
  let filled = 0
  const rest: Gap[] = []
  for (let gap = gaps[after]; gap !== undefined && gap.from < to; gap = gaps[++after]) {
    filled += Math.min(gap.to, to) - Math.max(gap.from, from)
    if (gap.from < from) rest.push({ ...gap, to: from })
    if (gap.to > to) rest.push({ ...gap, from: to })
  }
  gaps.splice(first, after - first, ...rest)
  return filled
}
