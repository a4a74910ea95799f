// Cosignatures of c2sp.org/tlog-cosignature: a witness states when it saw a checkpoint as the newest of its log.

import { areEqual, utf8Bytes } from './digest.js'
import { SIGNATURE_BYTES } from './key-sizes.js'
import type { Note, NoteSignature } from './note.js'
import type { NamedKey } from './vkey.js'

export const TIME_BYTES = 8
const MS_PER_SECOND = 1_000
/** A cosignature of a time further ahead does not count, as it would never grow old. */
const MAX_AHEAD_MS = 3_600_000

export type CosignatureJudgement =
  /** `time` in seconds since the epoch. */
  { readonly kind: 'valid'; readonly time: number } | { readonly kind: 'absent' } | { readonly kind: 'wrong' }

/** The cosignature of the witness in `note`. Signatures of other names and keys are ignored. */
export function judgeCosignature(note: Note, witness: NamedKey): CosignatureJudgement {
  let time: number | undefined
  for (const signed of note.signatures) {
    if (!isBy(signed, witness)) continue
    const stated = timeOf(signed)
    if (stated === undefined) return { kind: 'wrong' }
    const signature = signed.signature.subarray(TIME_BYTES)
    if (!witness.key.verify(cosignedMessage(note.text, stated), signature)) return { kind: 'wrong' }
    time = Math.max(stated, time ?? 0)
  }
  return time === undefined ? { kind: 'absent' } : { kind: 'valid', time }
}

/** Whether a cosignature of this time, in seconds, counts at `now`, in milliseconds. */
export function isPast(time: number, now: number): boolean {
  return time * MS_PER_SECOND <= now + MAX_AHEAD_MS
}

export function isBy({ name, keyId }: NoteSignature, witness: NamedKey): boolean {
  return name === witness.name && areEqual(keyId, witness.id)
}

/** The time that a cosignature states, seconds since the epoch; undefined if it has another form. */
export function timeOf({ signature }: NoteSignature): number | undefined {
  if (signature.length !== TIME_BYTES + SIGNATURE_BYTES) return undefined
  const time = Number(new DataView(signature.buffer, signature.byteOffset).getBigUint64(0))
  return Number.isSafeInteger(time) && time > 0 ? time : undefined
}

export function cosignedMessage(text: string, time: number): Uint8Array {
  return utf8Bytes(`cosignature/v1\ntime ${time}\n${text}`)
}
