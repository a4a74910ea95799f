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
  lost: number[]
}

export class RecordSequence {
  readonly #session: string
  readonly #logId: string
  readonly #days = new Map<string, DayNumbers>()

  constructor(logId: string, session = randomBytes(8).toString('hex')) {
    this.#logId = shortLogId(logId)
    this.#session = session
  }

  /** The members of the day's next record, and all numbers that are lost if it cannot be written. */
  next(day: string): { members: SequencedRecord; numbers: readonly number[] } {
    const known = this.#days.get(day) ?? { next: 0, lost: [] }
    this.#days.set(day, known)
    const { lost } = known
    const number = known.next++
    const members = { log_id: this.#logId, seq: `${this.#session}:${number}` }
    if (lost.length === 0) return { members, numbers: [number] }
    known.lost = []
    return { members: { ...members, lost: rangesOf(lost) }, numbers: [...lost, number] }
  }

  /** The next record of the day names these numbers. */
  lose(day: string, numbers: readonly number[]): void {
    this.#days.get(day)?.lost.push(...numbers)
  }
}

function rangesOf(numbers: readonly number[]): LostRange[] {
  const ranges: [number, number][] = []
  for (const number of numbers.toSorted((a, b) => a - b)) {
    const last = ranges.at(-1)
    if (last !== undefined && number <= last[1] + 1) last[1] = number
    else ranges.push([number, number])
  }
  return ranges
}
