// Finds the lines at which the writer's clock was set back, and compares the times on both sides with those of
// witnesses. A wrong clock is not tampering, so it does not change the verdict.

import { judgeCosignature, timeOf } from '../../tree/cosignature.js'
import type { Note } from '../../tree/note.js'
import type { NamedKey } from '../../tree/vkey.js'
import type { ClockAgreement, ClockSetBack } from './report.js'

// Smaller steps are those of a synchronised clock; a witness that responds late differs by less.
const TOLERANCE_MS = 120_000
const MAX_REPORTED = 100

/** A cosigned checkpoint, and the time that its journal line states. */
interface Cosigned {
  readonly note: Note
  readonly at: string
}

interface Step {
  readonly line: number
  readonly from: string
  readonly to: string
  /** The last cosigned checkpoint before it. */
  readonly before: Cosigned | undefined
  /** The first one after it. */
  after: Cosigned | undefined
}

export class ClockCheck {
  readonly #witnesses: readonly NamedKey[]
  readonly #steps: Step[] = []
  #at = ''
  #cosigned: Cosigned | undefined

  constructor(witnesses: readonly NamedKey[]) {
    this.#witnesses = witnesses
  }

  /** The next journal line, counted from 1. */
  line(number: number, at: string): void {
    // Instants of one form compare as text.
    const isBack = at < this.#at && Date.parse(this.#at) - Date.parse(at) > TOLERANCE_MS
    if (isBack && this.#steps.length < MAX_REPORTED) {
      const step = { line: number, from: this.#at, to: at, before: this.#cosigned, after: undefined }
      this.#steps.push(step)
      this.#cosigned = undefined
    }
    this.#at = at
  }

  /** A checkpoint of the last line, which agrees with the tree. */
  checkpoint(note: Note): void {
    if (this.#witnesses.length === 0 || !note.signatures.some(timeOf)) return
    this.#cosigned = { note, at: this.#at }
    const step = this.#steps.at(-1)
    if (step !== undefined) step.after ??= this.#cosigned
  }

  finish(): ClockSetBack[] {
    return this.#steps.map(({ line, from, to, before, after }) => {
      return { line, from, to, before: this.#agreement(before), after: this.#agreement(after) }
    })
  }

  #agreement(cosigned: Cosigned | undefined): ClockAgreement {
    if (cosigned === undefined) return 'unknown'
    const times = this.#witnesses.flatMap((witness) => {
      const judged = judgeCosignature(cosigned.note, witness)
      return judged.kind === 'valid' ? [judged.time] : []
    })
    if (times.length === 0) return 'unknown'
    // Each of them saw the line after it was written, so the first one is the nearest.
    const aheadMs = Date.parse(cosigned.at) - Math.min(...times) * 1_000
    if (aheadMs > TOLERANCE_MS) return 'ahead'
    return aheadMs < -TOLERANCE_MS ? 'behind' : 'agrees'
  }
}
