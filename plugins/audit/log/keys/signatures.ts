// JSON objects with `sig`, such as lines of the log and the state of the upload: `ed25519:` and the base64 of the
// signature of their canonical JSON without it.
import type { Signer } from '@svc/core'
import { canonicalize, defined, toBase64 } from '@svc/core/json'
import { cosignedMessage, TIME_BYTES } from '../format/checkpoint.js'
import { AuditError, SignerKeyError, signerFailure } from '../format/errors.js'
import { SIGNATURE_BYTES } from '../format/key-sizes.js'
import {
  COSIGNATURE_TYPE,
  ED25519_TYPE,
  type NamedKey,
  namedKey,
  parseVkey,
  type SignatureType,
  signatureLine,
  vkeyText,
} from '../format/note.js'
import { type SignatureVerifier, signatureIn } from '../format/verifier.js'
import { noteKeyId, verifierFromPublicKey } from './public-key.js'

// Keys under the names of signed notes: what signs a log's checkpoints, and the text forms of verifier keys.

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

const PREFIX = 'ed25519:'

/** @throws {AuditError} `signer_failed`. */
export async function signatureOf(message: Uint8Array, signer: Signer): Promise<Uint8Array> {
  try {
    const sig = signer.signAsync === undefined ? signer.sign(message) : await signer.signAsync(message)
    if (sig.length === SIGNATURE_BYTES) return sig
    throw new AuditError('signer_failed', `the signer gave ${sig.length} bytes, a signature has 64`)
  } catch (error) {
    throw signerFailure(error)
  }
}

/** Limits `signAsync` of the signer to `ms`, because records and seals wait for a signature that may never come. */
export function withTimeLimit(signer: Signer, ms: number): Signer {
  if (signer.signAsync === undefined) return signer
  const unlimited = signer.signAsync.bind(signer)
  const signAsync = async (message: Uint8Array) => {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`it gave no signature within ${ms} ms`)), ms)
    })
    try {
      return await Promise.race([unlimited(message), late])
    } finally {
      clearTimeout(timer)
    }
  }
  const { keyId, publicKey } = signer
  return {
    keyId,
    ...defined({ publicKey }),
    sign: (message) => signer.sign(message),
    verify: (message, sig) => signer.verify(message, sig),
    signAsync,
  }
}

/** @throws {AuditError} `signer_failed`. */
export async function signJson<T extends object>(
  value: T,
  signer: Signer,
): Promise<T & { readonly sig: string }> {
  const sig = await signatureOf(Buffer.from(canonicalize(value)), signer)
  return { ...value, sig: PREFIX + toBase64(sig) }
}

/** Whether `key` has signed the object, which names no other key. */
export function hasSigned<T extends { readonly key_id?: unknown; readonly sig?: unknown }>(
  { sig, ...unsigned }: T,
  key: Pick<SignatureVerifier, 'keyId' | 'verify'>,
): boolean {
  if ((unsigned.key_id ?? key.keyId) !== key.keyId) return false
  const bytes = signatureIn(sig)
  return bytes !== undefined && key.verify(Buffer.from(canonicalize(unsigned)), bytes)
}
