// Verifier keys of c2sp.org/signed-note: `<name>+<key id>+<base64 of the signature type and the key>`.

import { parseBase64, toBase64 } from '@svc/core/json'
import { PUBLIC_KEY_BYTES } from '../keys/ed25519.js'
import { type SignatureVerifier, verifierFromPublicKey } from '../keys/public-key.js'
import { noteKeyId, type SignatureType } from './note.js'

const VKEY = /^([^\s+\p{Cc}]+)\+([0-9a-f]{8})\+(\S+)$/u

/** A key and the name under which it signs. */
export interface NamedKey {
  readonly name: string
  /** The key id, as in signature lines. */
  readonly id: Uint8Array
  readonly key: SignatureVerifier
}

export function namedKey(name: string, type: SignatureType, publicKey: Uint8Array): NamedKey {
  return { name, id: noteKeyId(name, publicKey, type), key: verifierFromPublicKey(publicKey) }
}

export function formatVkey(name: string, type: SignatureType, publicKey: Uint8Array): string {
  const id = Buffer.from(noteKeyId(name, publicKey, type)).toString('hex')
  return `${name}+${id}+${toBase64(Buffer.concat([Buffer.of(type), publicKey]))}`
}

/** Undefined for any other text, another type of key, and a key id that is not the one of the key. */
export function parseVkey(text: string, type: SignatureType): NamedKey | undefined {
  const [, name, id, encoded] = VKEY.exec(text) ?? []
  const bytes = encoded === undefined ? undefined : parseBase64(encoded)
  if (name === undefined || bytes?.length !== 1 + PUBLIC_KEY_BYTES || bytes[0] !== type) return undefined
  const named = namedKey(name, type, bytes.subarray(1))
  return Buffer.from(named.id).toString('hex') === id ? named : undefined
}
