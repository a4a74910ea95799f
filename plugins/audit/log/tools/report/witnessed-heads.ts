// The confirmations by witnesses in a range of days: for each witness, the newest checkpoint that it has cosigned.

import { isBy, judgeCosignature, timeOf } from '../../tree/cosignature.js'
import type { Note } from '../../tree/note.js'
import type { NamedKey } from '../../tree/vkey.js'
import type { KeptCheckpoint } from '../verify/checkpoint-walk.js'

export interface ReportedWitness {
  readonly name: string
  /** Whether its key was given and its cosignature checked. */
  readonly checked: boolean
  /** Leaves of the newest checkpoint of the range with its cosignature; null if there is none, or a wrong one. */
  readonly size: number | null
  /** The time of that cosignature by the witness's clock, an ISO 8601 instant. */
  readonly at: string | null
}

interface NewestHead {
  readonly note: Note
  readonly size: number
}

export class WitnessedHeads {
  readonly #keys: readonly NamedKey[] | undefined
  readonly #newest = new Map<string, NewestHead>()

  /** @param keys of the witnesses to report; without them all are reported, unchecked. */
  constructor(keys: readonly NamedKey[] | undefined) {
    this.#keys = keys
  }

  /** A checkpoint of the range that the log has signed. */
  offer({ note, size, origin }: KeptCheckpoint): void {
    for (const name of this.#namesOn(note, origin)) {
      if (size >= (this.#newest.get(name)?.size ?? 0)) this.#newest.set(name, { note, size })
    }
  }

  witnesses(): ReportedWitness[] {
    if (this.#keys === undefined) {
      return [...this.#newest].map(([name, { note, size }]) => {
        const signature = note.signatures.find((signed) => signed.name === name)
        return { name, checked: false, size, at: instant(signature && timeOf(signature)) }
      })
    }
    return this.#keys.map((key) => {
      const newest = this.#newest.get(key.name)
      const judged = newest && judgeCosignature(newest.note, key)
      const isValid = newest !== undefined && judged?.kind === 'valid'
      const size = isValid ? newest.size : null
      return { name: key.name, checked: true, size, at: isValid ? instant(judged.time) : null }
    })
  }

  #namesOn({ signatures }: Note, origin: string): string[] {
    const keys = this.#keys
    if (keys !== undefined) {
      return keys.filter((key) => signatures.some((signed) => isBy(signed, key))).map(({ name }) => name)
    }
    return signatures.flatMap(({ name }) => (name === origin ? [] : [name]))
  }
}

/** @param seconds since the epoch. */
function instant(seconds: number | undefined): string | null {
  const date = new Date((seconds ?? Number.NaN) * 1_000)
  return Number.isNaN(date.getTime()) ? null : date.toISOString()
}
