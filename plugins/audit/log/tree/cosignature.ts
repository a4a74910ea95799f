// Cosignatures of c2sp.org/tlog-cosignature: a witness states when it saw a checkpoint as the newest of its log.

import type { Signer } from '@svc/core'
import { SignerKeyError } from '../format/errors.js'
import { SIGNATURE_BYTES } from '../keys/ed25519.js'
import { COSIGNATURE_TYPE, type Note, type NoteSignature, noteKeyId, signatureLine } from './note.js'
import { type NamedKey, parseVkey } from './vkey.js'

const TIME_BYTES = 8
const MS_PER_SECOND = 1_000
/** A cosignature of a time further ahead does not count, as it would never grow old. */
export const MAX_AHEAD_MS = 3_600_000

export type CosignatureJudgement =
  /** `time` in seconds since the epoch. */
  { readonly kind: 'valid'; readonly time: number } | { readonly kind: 'absent' } | { readonly kind: 'wrong' }

/** The signature line of the witness `name` on the checkpoint `text`, with its newline. `now` in milliseconds. */
export function cosign(
  text: string,
  name: string,
  signer: Signer & { readonly publicKey: Uint8Array },
  now: number,
): string {
  const time = Math.floor(now / MS_PER_SECOND)
  const stamp = Buffer.alloc(TIME_BYTES)
  stamp.writeBigUInt64BE(BigInt(time))
  const signature = Buffer.concat([stamp, signer.sign(cosignedMessage(text, time))])
  return signatureLine(name, noteKeyId(name, signer.publicKey, COSIGNATURE_TYPE), signature)
}

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

export function isBy({ name, keyId }: NoteSignature, witness: NamedKey): boolean {
  return name === witness.name && Buffer.compare(keyId, witness.id) === 0
}

/** The time that a cosignature states, seconds since the epoch; undefined if it has another form. */
export function timeOf({ signature }: NoteSignature): number | undefined {
  if (signature.length !== TIME_BYTES + SIGNATURE_BYTES) return undefined
  const time = Number(Buffer.from(signature).readBigUInt64BE(0))
  return Number.isSafeInteger(time) && time > 0 ? time : undefined
}

function cosignedMessage(text: string, time: number): Uint8Array {
  return Buffer.from(`cosignature/v1\ntime ${time}\n${text}`)
}

/** @throws {SignerKeyError} when `text` is not the verifier key of a witness. */
export function parseWitnessKey(text: string): NamedKey {
  const key = parseVkey(text, COSIGNATURE_TYPE)
  if (key !== undefined) return key
  throw new SignerKeyError(
    'key_malformed',
    "a witness's key has the form <name>+<key id>+<base64>, with the signature type 4",
  )
}
