// Verifier keys of c2sp.org/signed-note: `<name>+<key id>+<base64 of the signature type and the key>`.

import { parseBase64, toBase64 } from '@svc/core/json/portable'
import { concatBytes, hexOf } from './digest.js'
import { PUBLIC_KEY_BYTES } from './key-sizes.js'
import type { SignatureType } from './note.js'
import type { NoteVerifier } from './verifier.js'

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
