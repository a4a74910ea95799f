// Keys under the names of signed notes: what signs a log's checkpoints, and the text forms of verifier keys.

import type { Signer } from '@svc/core'
import { cosignedMessage, TIME_BYTES } from '../format/cosignature.js'
import { SignerKeyError } from '../format/errors.js'
import { COSIGNATURE_TYPE, ED25519_TYPE, type SignatureType, signatureLine } from '../format/note.js'
import { type NamedKey, namedKey, parseVkey, vkeyText } from '../format/vkey.js'
import { noteKeyId, verifierFromPublicKey } from './public-key.js'
import { signatureOf } from './signed-json.js'

/** A signer with a public key, from which the note's key id is derived. */
export type NoteSigner = Signer & { readonly publicKey: Uint8Array }

export function canSignNotes(signer: Signer): signer is NoteSigner {
  return signer.publicKey !== undefined
}

/**
 * The note of `text`, which ends in a newline, signed by each of `signers` under `name`.
 *
 * @throws {AuditError} `signer_failed`.
 */
export async function signNote(text: string, name: string, signers: readonly NoteSigner[]): Promise<string> {
  const lines: string[] = []
  for (const signer of signers) {
    const keyId = noteKeyId(name, signer.publicKey, ED25519_TYPE)
    lines.push(signatureLine(name, keyId, await signatureOf(Buffer.from(text), signer)))
  }
  return `${text}\n${lines.join('')}`
}

/** The signature line of the witness `name` on the checkpoint `text`, with its newline. `now` in milliseconds. */
export function cosign(text: string, name: string, signer: NoteSigner, now: number): string {
  const time = Math.floor(now / 1_000)
  const stamp = Buffer.alloc(TIME_BYTES)
  stamp.writeBigUInt64BE(BigInt(time))
  const signature = Buffer.concat([stamp, signer.sign(cosignedMessage(text, time))])
  return signatureLine(name, noteKeyId(name, signer.publicKey, COSIGNATURE_TYPE), signature)
}

export function formatVkey(name: string, type: SignatureType, publicKey: Uint8Array): string {
  return vkeyText(namedKey(name, type, verifierFromPublicKey(publicKey)), type)
}

/** @throws {SignerKeyError} when `text` is not the verifier key of a witness. */
export function parseWitnessKey(text: string): NamedKey {
  const key = parseVkey(text, COSIGNATURE_TYPE, verifierFromPublicKey)
  if (key !== undefined) return key
  throw new SignerKeyError(
    'key_malformed',
    "a witness's key has the form <name>+<key id>+<base64>, with the signature type 4",
  )
}
