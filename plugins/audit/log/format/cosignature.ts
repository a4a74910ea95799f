// Cosignatures of c2sp.org/tlog-cosignature: a witness states when it saw a checkpoint as the newest of its log.

import { type Head, parseAnyCheckpoint, parseTreeSize } from './checkpoint.js'
import { areEqual, type Digest, digestFromBase64, digestToBase64, utf8Bytes } from './digest.js'
import { SIGNATURE_BYTES } from './key-sizes.js'
import type { NamedKey } from './note.js'
import { type Note, type NoteSignature, parseNote } from './note.js'

// The body of an add-checkpoint request (c2sp.org/tlog-witness).

const MAX_PROOF_LINES = 63
const OLD = 'old '

export interface AddCheckpoint {
  /** Leaves of the checkpoint that the witness cosigned before; 0 for none. */
  readonly oldSize: number
  readonly proof: readonly Digest[]
  readonly note: Note
  readonly checkpoint: Head
}

export function formatAddCheckpoint(oldSize: number, proof: readonly Digest[], signed: string): string {
  const lines = proof.map((digest) => `${digestToBase64(digest)}\n`)
  return `${OLD}${oldSize}\n${lines.join('')}\n${signed}`
}

/** Undefined for a malformed body. */
export function parseAddCheckpoint(body: string): AddCheckpoint | undefined {
  const end = body.indexOf('\n\n')
  if (end < 0 || !body.startsWith(OLD)) return undefined
  const [oldLine = '', ...proofLines] = body.slice(OLD.length, end).split('\n')
  const oldSize = parseTreeSize(oldLine)
  const proof = proofLines.map(digestFromBase64)
  const note = parseNote(body.slice(end + 2))
  const checkpoint = note === undefined ? undefined : parseAnyCheckpoint(note.text)
  if (oldSize === undefined || note === undefined || checkpoint === undefined) return undefined
  if (proof.length > MAX_PROOF_LINES || !proof.every((digest) => digest !== undefined)) return undefined
  return { oldSize, proof, note, checkpoint }
}

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
