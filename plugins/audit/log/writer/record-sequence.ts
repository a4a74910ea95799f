// Numbers the records of one writer's session, so that a verifier finds replayed and missing ones.

import { randomBytes } from 'node:crypto'
import { canonicalize, type WrittenMember } from '@svc/core/json'
import { type LostRange, shortLogId } from '../format/stored-record.js'

interface DayNumbers {
  next: number
  /** Numbers whose records may be missing and that no later record has named. */
  readonly lost: number[]
}

/** The place of a record in its log. */
export interface RecordPosition {
  readonly number: number
  /** The lost numbers that it names. */
  readonly lost: readonly number[]
  /** The members that state these. */
  readonly text: readonly WrittenMember[]
}

const none: readonly never[] = []

export class RecordSequence {
  readonly #session = randomBytes(8).toString('hex')
  readonly #logId: WrittenMember
  readonly #days = new Map<string, DayNumbers>()

  constructor(logId: string) {
    this.#logId = { name: 'log_id', text: `"log_id":"${shortLogId(logId)}"` }
  }

  /**
   * The place of the day's next record. If it `namesLost`, it has the numbers that the day's next line has to name, which
   * are then its own to lose.
   */
  next(day: string, namesLost: boolean): RecordPosition {
    let known = this.#days.get(day)
    if (known === undefined) {
      known = { next: 0, lost: [] }
      this.#days.set(day, known)
    }
    const number = known.next++
    const lost = namesLost && known.lost.length > 0 ? known.lost.splice(0) : none
    const text = [this.#logId, { name: 'seq', text: `"seq":"${this.#session}:${number}"` }]
    // In canonical order.
    if (lost.length > 0) text.splice(1, 0, { name: 'lost', text: `"lost":${canonicalize(rangesOf(lost))}` })
    return { number, lost, text }
  }

  /** The numbers that the day's next line has to name, which are then its own to lose. */
  takeLost(day: string): readonly number[] {
    return this.#days.get(day)?.lost.splice(0) ?? []
  }

  /** The next record of the day names these numbers. */
  markLost(day: string, numbers: readonly number[]): void {
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
