// The sequence numbers of a day's records: each writer session counts its records of a day from 0, so a number that
// occurs twice is a replay, and one that is missing is a record that never reached the tree.

import { recordPlace } from '../../tree/record-place.js'
import type { LineFailure } from './check-line.js'

/** Consecutive numbers of one session, in the order of the log. */
export interface Run {
  readonly session: string
  readonly from: number
  /** Exclusive. */
  readonly to: number
}

export interface Gap extends Run {
  /** Whether a sealed record follows, so that the missing ones cannot still arrive. */
  readonly isSealed: boolean
}

/** Collects runs while the numbers of each session grow by one. */
export class RunCollector {
  readonly #open = new Map<string, { from: number; to: number }>()
  readonly runs: Run[] = []
  /** Numbers that records of the same session named as never written. */
  readonly lost: Run[] = []

  /** Why the record's place is not one; undefined where it is. */
  addRecord(record: Record<string, unknown>): LineFailure | undefined {
    const place = recordPlace(record)
    if (place === undefined) return { kind: 'bad_sequence', message: 'seq or lost is missing or malformed' }
    const { session, number, lost } = place
    this.#add(session, number)
    for (const [first, last] of lost) this.lost.push({ session, from: first, to: last + 1 })
    return undefined
  }

  #add(session: string, number: number): void {
    const run = this.#open.get(session)
    if (run !== undefined && run.to === number) {
      run.to++
      return
    }
    if (run !== undefined) this.runs.push({ session, ...run })
    this.#open.set(session, { from: number, to: number + 1 })
  }

  finish(): this {
    for (const [session, run] of this.#open) this.runs.push({ session, ...run })
    this.#open.clear()
    return this
  }
}

interface Session {
  /** One past the largest number. */
  next: number
  gaps: { from: number; to: number; isSealed: boolean }[]
}

/** Joins the runs of a day, in the order of the log. */
export class DaySequences {
  readonly #sessions = new Map<string, Session>()
  /** True as soon as a number occurred twice. */
  hasReplays = false

  add({ session, from, to }: Run, isSealed: boolean): void {
    const known = this.#sessions.get(session) ?? { next: 0, gaps: [] }
    this.#sessions.set(session, known)
    if (from > known.next) known.gaps.push({ from: known.next, to: from, isSealed })
    for (let number = from; number < Math.min(to, known.next); number++) {
      if (!fill(known, number, number + 1)) this.hasReplays = true
    }
    known.next = Math.max(known.next, to)
  }

  /** A record states that these were never written. */
  excuse({ session, from, to }: Run): void {
    const known = this.#sessions.get(session)
    if (known !== undefined) for (let number = from; number < to; number++) fill(known, number, number + 1)
  }

  /** The numbers that neither occurred nor were named as lost. */
  gaps(): Gap[] {
    return [...this.#sessions].flatMap(([session, { gaps }]) => gaps.map((gap) => ({ session, ...gap })))
  }
}

/** Removes `[from, to)` from the session's gaps; false where it lies in none. */
function fill(session: Session, from: number, to: number): boolean {
  const at = session.gaps.findIndex((gap) => gap.from <= from && to <= gap.to)
  const gap = session.gaps[at]
  if (gap === undefined) return false
  const rest = [
    { ...gap, to: from },
    { ...gap, from: to },
  ].filter((part) => part.from < part.to)
  session.gaps.splice(at, 1, ...rest)
  return true
}
