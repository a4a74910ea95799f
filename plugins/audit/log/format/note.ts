// Signed notes of c2sp.org/signed-note: text, an empty line, one line per signature.

import { parseBase64, toBase64 } from '@svc/core/json/portable'
import { areEqual, concatBytes, hexOf, utf8Bytes } from './digest.js'
import { PUBLIC_KEY_BYTES, SIGNATURE_BYTES } from './key-sizes.js'
import type { NoteVerifier } from './verifier.js'

const KEY_ID_BYTES = 4
/** Signature types of signed-note: of a log's own key, and of a witness's cosignatures. */
export const ED25519_TYPE = 0x01
export const COSIGNATURE_TYPE = 0x04
export type SignatureType = typeof ED25519_TYPE | typeof COSIGNATURE_TYPE
/** Signature lines of a note; more are refused. */
export const MAX_SIGNATURES = 16
const DASH = '\u2014 '
const SIGNATURE_LINE = /^\u2014 ([^\s+]+) (\S+)$/
// Below U+0020 only the newline may occur.
const CONTROL = /[^\n\u0020-\uffff]/

export interface NoteSignature {
  /** Name of the key. */
  readonly name: string
  readonly keyId: Uint8Array
  readonly signature: Uint8Array
}

export interface Note {
  /** Ends in a newline. */
  readonly text: string
  readonly signatures: readonly NoteSignature[]
}

export type NoteJudgement =
  | { readonly kind: 'verified'; readonly key: NoteVerifier }
  | { readonly kind: 'unknown_key' }
  | { readonly kind: 'bad_signature'; readonly key: NoteVerifier }

/** What a note's key id is the start of the SHA-256 of: `name || 0x0A || type || public key`, signed-note "Signatures". */
export function noteKeyIdInput(name: string, publicKey: Uint8Array, type: number): Uint8Array {
  return concatBytes(utf8Bytes(`${name}\n`), Uint8Array.of(type), publicKey)
}

/** The key id from its SHA-256. */
export function noteKeyIdIn(sha256: Uint8Array): Uint8Array {
  return sha256.subarray(0, KEY_ID_BYTES)
}

export function signatureLine(name: string, keyId: Uint8Array, signature: Uint8Array): string {
  return `${DASH}${name} ${toBase64(concatBytes(keyId, signature))}\n`
}

/** The text of the note without repeated signatures, and with the last ones if a reader would refuse their number. */
export function formatNote({ text, signatures }: Note): string {
  const lines = signatures.map(({ name, keyId, signature }) => signatureLine(name, keyId, signature))
  return `${text}\n${[...new Set(lines)].slice(-MAX_SIGNATURES).join('')}`
}

/** Parses exactly one note; undefined for anything else. */
export function parseNote(signed: string, maxSignatures = MAX_SIGNATURES): Note | undefined {
  if (CONTROL.test(signed) || !signed.endsWith('\n')) return undefined
  const separator = signed.lastIndexOf('\n\n')
  if (separator < 1) return undefined
  const signatures: NoteSignature[] = []
  for (let start = separator + 2, end: number; start < signed.length; start = end + 1) {
    end = signed.indexOf('\n', start)
    const signature = parseSignature(signed.slice(start, end))
    if (signature === undefined || signatures.length === maxSignatures) return undefined
    signatures.push(signature)
  }
  if (signatures.length === 0) return undefined
  return { text: signed.slice(0, separator + 1), signatures }
}

/** Parses a signature line without its newline; undefined for anything else. */
export function parseSignature(line: string): NoteSignature | undefined {
  const [, name, encoded] = SIGNATURE_LINE.exec(line) ?? []
  if (name === undefined || encoded === undefined) return undefined
  const bytes = parseBase64(encoded)
  if (bytes === undefined || bytes.length <= KEY_ID_BYTES) return undefined
  return { name, keyId: bytes.subarray(0, KEY_ID_BYTES), signature: bytes.subarray(KEY_ID_BYTES) }
}

/**
 * Ids of the keys among `keys` that should have signed the note under `name`. The signatures are not checked; empty if
 * one of them cannot be a signature.
 */
export function signersOf(note: Note, name: string, keys: readonly NoteVerifier[]): string[] {
  const ids: string[] = []
  for (const signed of note.signatures) {
    const key = keyOf(signed, name, keys)
    if (key === undefined) continue
    if (signed.signature.length !== SIGNATURE_BYTES) return []
    ids.push(key.keyId)
  }
  return ids
}

function keyOf(
  { name: signedAs, keyId }: NoteSignature,
  name: string,
  keys: readonly NoteVerifier[],
): NoteVerifier | undefined {
  if (signedAs !== name) return undefined
  return keys.find((key) => areEqual(key.noteId(name, ED25519_TYPE), keyId))
}

/** Whether one of `keys` has signed the note under `name`; false if there is no note. */
export function isVerified(note: Note | undefined, name: string, keys: readonly NoteVerifier[]): boolean {
  return note !== undefined && judgeNote(note, name, keys).kind === 'verified'
}

/**
 * Verifies the signature of a note under `name`. As signed-note requires, signatures of other names and keys are
 * ignored, and a failing signature of a known key makes the note invalid.
 */
export function judgeNote(note: Note, name: string, keys: readonly NoteVerifier[]): NoteJudgement {
  const message = utf8Bytes(note.text)
  let verified: NoteVerifier | undefined
  for (const signed of note.signatures) {
    const key = keyOf(signed, name, keys)
    if (key === undefined) continue
    if (!key.verify(message, signed.signature)) return { kind: 'bad_signature', key }
    verified = key
  }
  return verified === undefined ? { kind: 'unknown_key' } : { kind: 'verified', key: verified }
}

/** A verifier key of c2sp.org/signed-note: `<name>+<key id>+<base64 of the signature type and the key>`. */
const VKEY = /^([^\s+\p{Cc}]+)\+([0-9a-f]{8})\+(\S+)$/u

/** A key and the name under which it signs. */
export interface NamedKey {
  readonly name: string
  /** The key id, as in signature lines. */
  readonly id: Uint8Array
  readonly key: NoteVerifier
}

export function namedKey(name: string, type: SignatureType, key: NoteVerifier): NamedKey {
  return { name, id: key.noteId(name, type), key }
}

export function vkeyText({ name, id, key }: NamedKey, type: SignatureType): string {
  return `${name}+${hexOf(id)}+${toBase64(concatBytes(Uint8Array.of(type), key.publicKey))}`
}

/** Undefined for any other text, another type of key, and a key id that is not the one of the key. */
export function parseVkey(
  text: string,
  type: SignatureType,
  verifierOf: (publicKey: Uint8Array<ArrayBuffer>) => NoteVerifier,
): NamedKey | undefined {
  const [, name, id, encoded] = VKEY.exec(text) ?? []
  const bytes = encoded === undefined ? undefined : parseBase64(encoded)
  if (name === undefined || bytes?.length !== 1 + PUBLIC_KEY_BYTES || bytes[0] !== type) return undefined
  const named = namedKey(name, type, verifierOf(bytes.slice(1)))
  return hexOf(named.id) === id ? named : undefined
}
