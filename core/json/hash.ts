// The hash of inputs, outputs, policies and key ids.

import { hash } from 'node:crypto'
import { canonicalizeExact } from './canonical.js'
import { CanonicalJsonError } from './errors.js'

/** SHA-256 (FIPS 180-4) in lower-case hex. A string is hashed as its UTF-8 bytes. */
export function sha256Hex(data: string | Uint8Array): string {
  return hash('sha256', data, 'hex')
}

/** SHA-256 in base64url, two thirds of the length, for keys of stores. A string is hashed as its UTF-8 bytes. */
export function sha256Base64url(data: string | Uint8Array): string {
  return hash('sha256', data, 'base64url')
}

/** In a digest, before the hex digits, if they are not those of canonical JSON of RFC 8785. */
type DigestForm = 'exact' | 'bytes'

/**
 * The digest of a result: SHA-256, hex, of its canonical form, after `exact:` if that has numbers that no double represents.
 * A result without one, such as text with half of a surrogate pair or 1e400, has `bytes:` and the hash of `text`, the JSON
 * of the whole response.
 */
export function resultDigest(result: unknown, text: string): string {
  try {
    const canonical = canonicalizeExact(result)
    const sha256 = sha256Hex(canonical.text)
    if (canonical.range === 'double') return sha256
    if (canonical.range === 'exact') return writeDigest({ sha256, form: 'exact' })
  } catch (error) {
    if (!(error instanceof CanonicalJsonError)) throw error
  }
  return writeDigest({ sha256: sha256Hex(text), form: 'bytes' })
}

interface RecordedDigest {
  /** Hex digits. */
  readonly sha256: string
  readonly form?: DigestForm | undefined
}

export function writeDigest({ sha256, form }: RecordedDigest): string {
  return form === undefined ? sha256 : `${form}:${sha256}`
}

export function readDigest(digest: string): RecordedDigest {
  const colon = digest.indexOf(':')
  if (colon < 0) return { sha256: digest }
  return { sha256: digest.slice(colon + 1), form: digest.startsWith('exact') ? 'exact' : 'bytes' }
}
