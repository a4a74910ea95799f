// The hash of inputs, outputs, policies and key ids.

import { hash } from 'node:crypto'
import { canonicalize } from './canonical.js'
import { CanonicalJsonError } from './errors.js'

/** SHA-256 (FIPS 180-4) in lower-case hex. A string is hashed as its UTF-8 bytes. */
export function sha256Hex(data: string | Uint8Array): string {
  return hash('sha256', data, 'hex')
}

/** SHA-256 in base64url, two thirds of the length, for keys of stores. A string is hashed as its UTF-8 bytes. */
export function sha256Base64url(data: string | Uint8Array): string {
  return hash('sha256', data, 'base64url')
}

/** Begins the digest of a response whose result has no canonical form: the hex digits are those of its bytes. */
const OF_BYTES = 'bytes:'

/**
 * The digest of a result: SHA-256, hex, of its canonical form. Of a result without one, such as text with half of a
 * surrogate pair, it is `bytes:` and the hash of `text`, the JSON of the whole response.
 */
export function resultDigest(result: unknown, text: string): string {
  try {
    return sha256Hex(canonicalize(result))
  } catch (error) {
    if (!(error instanceof CanonicalJsonError)) throw error
    return `${OF_BYTES}${sha256Hex(text)}`
  }
}

/** The hex digits of a digest, and whether they are of the bytes. */
export function readDigest(digest: string): { readonly sha256: string; readonly isOfBytes: boolean } {
  const isOfBytes = digest.startsWith(OF_BYTES)
  return { sha256: isOfBytes ? digest.slice(OF_BYTES.length) : digest, isOfBytes }
}
