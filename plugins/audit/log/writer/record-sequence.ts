// Numbers the records of one writer's session, so that a verifier finds replayed and missing ones.

import { randomBytes } from 'node:crypto'
import { type LostRange, shortLogId } from '../tree/record-place.js'

export interface SequencedRecord {
  readonly log_id: string
  readonly seq: string
  readonly lost?: readonly LostRange[]
}

interface DayNumbers {
  next: number
  /** Numbers whose records may be missing and that no later record has named. */
  readonly lost: number[]
}

export class RecordSequence {
  readonly #session: string
  readonly #logId: string
  readonly #days = new Map<string, DayNumbers>()

  constructor(logId: string, session = randomBytes(8).toString('hex')) {
    this.#logId = shortLogId(logId)
    this.#session = session
  }

  /** The day's next number. */
  next(day: string): number {
    const known = this.#days.get(day) ?? { next: 0, lost: [] }
    this.#days.set(day, known)
    return known.next++
  }

  /** The numbers that the day's next line has to name, which are then its own to lose. */
  takeLost(day: string): readonly number[] {
    return this.#days.get(day)?.lost.splice(0) ?? []
  }

  /** The members of the record that has the number, and names what is `lost`. */
  members(number: number, lost: readonly number[]): SequencedRecord {
    const members = { log_id: this.#logId, seq: `${this.#session}:${number}` }
    return lost.length === 0 ? members : { ...members, lost: rangesOf(lost) }
  }

  /** The next record of the day names these numbers. */
  lose(day: string, numbers: readonly number[]): void {
    this.#days.get(day)?.lost.push(...numbers)
  }
}

/** The numbers as ranges. */
export function rangesOf(numbers: readonly number[]): LostRange[] {
  const ranges: [number, number][] = []
  for (const number of numbers.toSorted((a, b) => a - b)) {
    const last = ranges.at(-1)
    if (last !== undefined && number <= last[1] + 1) last[1] = number
    else ranges.push([number, number])
  }
  return ranges
}
