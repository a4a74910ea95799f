// The first and the last checkpoint of a range of days. Verification accepts older checkpoints that later ones cover
// without checking their own signatures; a report checks what it repeats and signs.

import { dayOfCheckpointFile } from '../../format/paths.js'
import { judgeCosignature } from '../../tree/cosignature.js'
import type { KeyHistory } from '../../tree/key-history.js'
import { formatNote, judgeNote } from '../../tree/note.js'
import type { NamedKey } from '../../tree/vkey.js'
import type { OnCheckpoint } from '../verify/checkpoint-check.js'
import { type KeptCheckpoint, signatureFailure } from '../verify/checkpoint-walk.js'
import type { WitnessedHeads } from './witnessed-heads.js'

interface DayRange {
  readonly from: string
  readonly to: string
}

export class ReportedHeads {
  readonly #range: DayRange
  readonly #witnessed: WitnessedHeads
  readonly #witnesses: readonly NamedKey[]
  #first: string | undefined
  #last: string | undefined

  constructor(range: DayRange, witnessed: WitnessedHeads, witnesses: readonly NamedKey[] = []) {
    this.#range = range
    this.#witnessed = witnessed
    this.#witnesses = witnesses
  }

  /** Takes checkpoints of ascending sizes. */
  readonly offer: OnCheckpoint = (checkpoint, keys) => {
    const day = dayOfCheckpointFile(checkpoint.file) ?? ''
    const { from, to } = this.#range
    if (day < from || day > to || signatureFailure(checkpoint, keys) !== undefined) return
    this.#witnessed.offer(checkpoint)
    this.#last = this.#checkedPart(checkpoint, keys)
    this.#first ??= this.#last
  }

  /** The heads as notes, each with the signatures that were checked. */
  notes(): string[] {
    return [this.#first, this.#last].flatMap((note) => note ?? [])
  }

  #checkedPart({ note: { text, signatures }, origin, size }: KeptCheckpoint, keys: KeyHistory): string {
    const known = keys.allAt(size - 1)
    const checked = signatures.filter((signed) => {
      const note = { text, signatures: [signed] }
      const isByWitness = (key: NamedKey) => judgeCosignature(note, key).kind === 'valid'
      return judgeNote(note, origin, known).kind === 'verified' || this.#witnesses.some(isByWitness)
    })
    return formatNote({ text, signatures: checked })
  }
}
