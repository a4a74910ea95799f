// Public keys: their ids, their one-line form, and verification.

import { parseBase64, sha256Hex, toBase64 } from '@svc/core/json'
import { SignerKeyError } from '../format/errors.js'
import { ed25519, PUBLIC_KEY_BYTES } from './ed25519.js'

const PREFIX = 'ed25519:'

export interface SignatureVerifier {
  /** `ed25519:` and the SHA-256, in lower-case hex, of the public key. */
  readonly keyId: string
  readonly publicKey: Uint8Array
  verify(data: Uint8Array, sig: Uint8Array): boolean
}

/** A key with the leaves of a log for which it is trusted; without `leaves` it is trusted for all. */
export interface TrustedKey extends SignatureVerifier {
  /** The first leaf that it may sign, and the first that it may not. */
  readonly leaves?: readonly [from: number, until: number]
}

export function keyIdOf(publicKey: Uint8Array): string {
  return PREFIX + sha256Hex(publicKey)
}

/** `ed25519:<base64>`, as the file `public-keys` holds it. */
export function publicKeyLine(publicKey: Uint8Array): string {
  return PREFIX + toBase64(publicKey)
}

/** The key in `ed25519:` and the base64 of 32 bytes. @throws {SignerKeyError} for any other line. */
export function verifierFromLine(line: string): SignatureVerifier {
  if (!line.startsWith(PREFIX)) {
    throw new SignerKeyError('key_malformed', 'a public key line has the form ed25519:<base64>')
  }
  const bytes = parseBase64(line.slice(PREFIX.length))
  if (bytes === undefined) throw new SignerKeyError('key_malformed', 'the public key is not strict base64')
  return verifierFromPublicKey(bytes)
}

/** @throws {SignerKeyError} when the key is not 32 bytes long. */
export function verifierFromPublicKey(publicKey: Uint8Array): SignatureVerifier {
  if (publicKey.length !== PUBLIC_KEY_BYTES) {
    throw new SignerKeyError(
      'key_wrong_length',
      `an Ed25519 public key has ${PUBLIC_KEY_BYTES} bytes, this one ${publicKey.length}`,
    )
  }
  const own = new Uint8Array(publicKey)
  return {
    keyId: keyIdOf(own),
    publicKey: own,
    verify: (data, sig) => ed25519().verify(own, data, sig),
  }
}
