// The newest checkpoint that enough witnesses have cosigned. Only the last candidates are kept: one quorum states that
// everything before it was only appended to.

import { isBy, judgeCosignature } from '../../tree/cosignature.js'
import type { NamedKey } from '../../tree/vkey.js'
import type { KeptCheckpoint } from './checkpoint-walk.js'
import type { Findings } from './findings.js'
import type { CosignedHead as Report } from './report.js'

/** The witnesses whose cosignatures verification requires. */
export interface WitnessPolicy {
  readonly keys: readonly NamedKey[]
  /** Number of required cosignatures; default all. */
  readonly quorum?: number
}

const MAX_CANDIDATES = 64
// Cosignatures follow a checkpoint within seconds, unless witnesses are down. Newer checkpoints may lack them.
const MAX_AGE_MS = 3_600_000
const MS_PER_SECOND = 1_000

export class CosignedHeadSearch {
  readonly #witnesses: readonly NamedKey[]
  readonly #quorum: number
  readonly #candidates: KeptCheckpoint[] = []
  #newest: KeptCheckpoint | undefined

  constructor({ keys, quorum = keys.length }: WitnessPolicy) {
    this.#witnesses = keys
    this.#quorum = quorum
  }

  /** A checkpoint that agrees with the tree, in the order of sizes. */
  offer(checkpoint: KeptCheckpoint): void {
    this.#newest = checkpoint
    const { signatures } = checkpoint.note
    const present = this.#witnesses.filter((witness) => signatures.some((signed) => isBy(signed, witness)))
    if (present.length < this.#quorum) return
    this.#candidates.push(checkpoint)
    if (this.#candidates.length > MAX_CANDIDATES) this.#candidates.shift()
  }

  /** Reports a missing quorum. `now` in milliseconds. */
  finish(findings: Findings, now: number): Report | undefined {
    const found = this.#find(findings, now)
    const { file, line } = this.#newest ?? { file: 'audit.journal', line: 0 }
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
        // A time in the future would never grow old.
        if (judged.kind !== 'valid' || judged.time * MS_PER_SECOND > now + MAX_AGE_MS) continue
        times.push(judged.time * MS_PER_SECOND)
        by.push(witness.name)
      }
      const time = times.sort((a, b) => b - a)[this.#quorum - 1]
      if (time !== undefined) return { size, time, by }
    }
    return undefined
  }
}
