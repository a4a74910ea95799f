// Every seal has a checkpoint, except the last one of a writer that died and those whose files retention has removed.

import { checkpointFile, JOURNAL_FILE } from '../../format/paths.js'
import type { Context } from './inventory.js'
import type { JournalEntry } from './journal-walk.js'

interface Unnoted {
  /** Number of the first journal line. */
  readonly number: number
  count: number
}

export class MissingCheckpoints {
  readonly #context: Context
  /** Seals without a checkpoint, by the day on which they were sealed. */
  readonly #unnoted = new Map<string, Unnoted>()
  /** Files of days before it may have been removed, counted in days since 1970. */
  #firstKept = Number.NEGATIVE_INFINITY
  /** The last seal, if it has no checkpoint: a writer that died may leave it so, and the next one adds it. */
  #pending: JournalEntry | undefined
  #isGrowing = false

  constructor(context: Context) {
    this.#context = context
  }

  /** Takes the next journal line. */
  take(entry: JournalEntry, isNoted: boolean): void {
    const { line, retentionDays: days } = entry
    if (days !== undefined) this.#firstKept = Math.max(this.#firstKept, dayNumber(line.at) - days)
    // Later seals may have got their checkpoints after the inventory.
    this.#isGrowing ||= entry.end > this.#context.coveredSize
    if (this.#isGrowing || line.kind !== 'seal') return
    if (this.#pending !== undefined) {
      const day = this.#pending.line.at.slice(0, 10)
      const known = this.#unnoted.get(day) ?? { number: this.#pending.number, count: 0 }
      known.count++
      this.#unnoted.set(day, known)
    }
    this.#pending = isNoted ? undefined : entry
  }

  /** @param hasAny whether a checkpoint agrees with the tree. */
  finish(hasAny: boolean): void {
    const { findings } = this.#context
    for (const [day, { number, count }] of this.#unnoted) {
      if (dayNumber(day) < this.#firstKept) continue
      const message = `${count} seals have no checkpoint, the first is ${JOURNAL_FILE}:${number}`
      findings.fail(checkpointFile(day), 0, 'missing_checkpoint', message)
    }
    // The first checkpoint follows the genesis and at most one seal.
    const isExpected = !this.#isGrowing && findings.totals.journalLines > 2 && this.#unnoted.size === 0
    if (!hasAny && isExpected) {
      findings.fail(JOURNAL_FILE, 0, 'missing_checkpoint', 'no checkpoint agrees with the journal')
    }
  }
}

function dayNumber(instant: string): number {
  return Math.floor(Date.parse(instant) / 86_400_000)
}
