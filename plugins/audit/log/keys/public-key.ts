// Public keys: their ids, and verification.

import { hash, type KeyObject } from 'node:crypto'
import { sha256Hex } from '@svc/core/json'
import { SignerKeyError } from '../format/errors.js'
import { PUBLIC_KEY_BYTES } from '../format/key-sizes.js'
import { ED25519_TYPE, noteKeyIdIn, noteKeyIdInput } from '../format/note.js'
import { type NoteVerifier, parsePublicKeyLine, type SignatureVerifier } from '../format/verifier.js'
import { ed25519 } from './ed25519.js'

export function keyIdOf(publicKey: Uint8Array): string {
  return `ed25519:${sha256Hex(publicKey)}`
}

/** The id of the key in the signature lines of notes under `name`. */
export function noteKeyId(name: string, publicKey: Uint8Array, type: number = ED25519_TYPE): Uint8Array {
  return noteKeyIdIn(hash('sha256', noteKeyIdInput(name, publicKey, type), 'buffer'))
}

/** The 32 bytes of a public key. @throws {SignerKeyError} for a key of another type. */
export function rawPublicKey(key: KeyObject): Uint8Array {
  const { x } = key.asymmetricKeyType === 'ed25519' ? key.export({ format: 'jwk' }) : {}
  if (x === undefined) throw new SignerKeyError('key_malformed', 'the key is not an Ed25519 key')
  return new Uint8Array(Buffer.from(x, 'base64url'))
}

/** The key in `ed25519:` and the base64 of 32 bytes. @throws {SignerKeyError} for any other line. */
export function verifierFromLine(line: string): NoteVerifier {
  const bytes = parsePublicKeyLine(line)
  if (bytes !== undefined) return verifierFromPublicKey(bytes)
  throw new SignerKeyError(
    'key_malformed',
    'a public key line has the form ed25519:<base64>, with the strict base64 of 32 bytes',
  )
}

/** @throws {SignerKeyError} when the key is not 32 bytes long. */
export function verifierFromPublicKey(publicKey: Uint8Array): NoteVerifier {
  if (publicKey.length !== PUBLIC_KEY_BYTES) {
    throw new SignerKeyError(
      'key_wrong_length',
      `an Ed25519 public key has ${PUBLIC_KEY_BYTES} bytes, this one ${publicKey.length}`,
    )
  }
  const own = new Uint8Array(publicKey)
  const verify = (data: Uint8Array, sig: Uint8Array) => ed25519().verify(own, data, sig)
  return noteVerifier({ keyId: keyIdOf(own), publicKey: own, verify })
}

/** A log has one name and few keys, and a key may have to be compared with the signatures of millions of notes. */
export function noteVerifier(key: SignatureVerifier): NoteVerifier {
  const { keyId, publicKey } = key
  let last: { readonly name: string; readonly type: number; readonly id: Uint8Array } | undefined
  return {
    keyId,
    publicKey,
    verify: (data, sig) => key.verify(data, sig),
    noteId(name, type) {
      if (last?.name !== name || last.type !== type)
        last = { name, type, id: noteKeyId(name, publicKey, type) }
      return last.id
    },
  }
}
