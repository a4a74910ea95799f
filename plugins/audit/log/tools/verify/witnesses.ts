// The facts that witnesses show: the newest checkpoint that enough of them have cosigned, and the lines at which the writer's
// clock was set back, with the times of witnesses on both sides. A wrong clock is not tampering, so it does not change the
// verdict.

import { isBy, isPast, judgeCosignature, timeOf } from '../../format/checkpoint.js'
import type { NamedKey, Note } from '../../format/note.js'
import { JOURNAL_FILE } from '../../format/paths.js'
import type { SavedCheckpoint } from './kept-checkpoint.js'
import type { ClockAgreement, ClockSetBack, CosignedHead, Findings } from './report.js'

/** The witnesses whose cosignatures verification requires. */
export interface WitnessPolicy {
  readonly keys: readonly NamedKey[]
  /** Number of required cosignatures; default all. */
  readonly quorum?: number
}

/** Only the last candidates are kept: one quorum states that everything before it was only appended to. */
const MAX_CANDIDATES = 64
// Cosignatures follow a checkpoint within seconds, unless witnesses are down. Newer checkpoints may lack them.
const MAX_AGE_MS = 3_600_000
const MS_PER_SECOND = 1_000

export class CosignedHeadSearch {
  readonly #witnesses: readonly NamedKey[]
  readonly #quorum: number
  readonly #candidates: SavedCheckpoint[] = []
  #newest: SavedCheckpoint | undefined

  constructor({ keys, quorum = keys.length }: WitnessPolicy) {
    this.#witnesses = keys
    this.#quorum = quorum
  }

  /** A checkpoint that agrees with the tree, in the order of sizes. */
  offer(checkpoint: SavedCheckpoint): void {
    this.#newest = checkpoint
    const { signatures } = checkpoint.note
    const present = this.#witnesses.filter((witness) => signatures.some((signed) => isBy(signed, witness)))
    if (present.length < this.#quorum) return
    this.#candidates.push(checkpoint)
    if (this.#candidates.length > MAX_CANDIDATES) this.#candidates.shift()
  }

  /** Reports a missing quorum. `now` in milliseconds. */
  finish(findings: Findings, now: number): CosignedHead | undefined {
    const found = this.#find(findings, now)
    const { file, line } = this.#newest ?? { file: JOURNAL_FILE, line: 0 }
    const fail = (message: string) => findings.fail(file, line, 'missing_cosignature', message)
    const wanted = `${this.#quorum} of the ${this.#witnesses.length} witnesses`
    if (found === undefined) {
      fail(`no checkpoint is cosigned by ${wanted}`)
    } else if (found.size !== this.#newest?.size && now - found.time > MAX_AGE_MS) {
      const since = new Date(found.time).toISOString()
      fail(`after leaf ${found.size - 1}, since ${since}, nothing is cosigned by ${wanted}`)
    }
    return found && { ...found, time: new Date(found.time).toISOString(), quorum: this.#quorum }
  }

  #find(findings: Findings, now: number) {
    for (const { note, file, line, size } of this.#candidates.toReversed()) {
      const times: number[] = []
      const by: string[] = []
      for (const witness of this.#witnesses) {
        const judged = judgeCosignature(note, witness)
        if (judged.kind === 'wrong') {
          const message = `the cosignature of ${witness.name} is wrong`
          findings.fail(file, line, 'bad_signature', message)
        }
        if (judged.kind !== 'valid' || !isPast(judged.time, now)) continue
        times.push(judged.time * MS_PER_SECOND)
        by.push(witness.name)
      }
      const time = times.sort((a, b) => b - a)[this.#quorum - 1]
      if (time !== undefined) return { size, time, by }
    }
    return undefined
  }
}

// Smaller steps are those of a synchronised clock; a witness that responds late differs by less.
const TOLERANCE_MS = 120_000
const MAX_REPORTED = 100

/** A checkpoint with a cosignature, and the time that its journal line states. */
interface CosignedNote {
  readonly note: Note
  readonly at: string
}

interface Step {
  readonly line: number
  readonly from: string
  readonly to: string
  /** The last cosigned checkpoint before it. */
  readonly before: CosignedNote | undefined
  /** The first one after it. */
  after: CosignedNote | undefined
}

export class ClockCheck {
  readonly #witnesses: readonly NamedKey[]
  readonly #steps: Step[] = []
  #at = ''
  #cosigned: CosignedNote | undefined

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

  #agreement(cosigned: CosignedNote | undefined): ClockAgreement {
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
