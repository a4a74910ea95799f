// Bytes, SHA-256 digests and their texts, with what Node and browsers have in common.

/**
 * A SHA-256 digest as a string of 32 Latin-1 characters, one per byte. It costs half as much as an array of bytes, compares
 * by value and can be a map key.
 */
export type Digest = string

const DIGEST_BYTES = 32
/** Characters of its base64. */
const DIGEST_TEXT_LENGTH = 44
const utf8 = new TextEncoder()

export function utf8Bytes(text: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(utf8.encode(text))
}

export function hexOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** The bytes of hexadecimal digits. */
export function bytesOfHex(hex: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(hex.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16))
}

export function concatBytes(...parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

export function areEqual(left: Uint8Array, right: Uint8Array): boolean {
  if (left.length !== right.length) return false
  for (let at = 0; at < left.length; at++) if (left[at] !== right[at]) return false
  return true
}

export function bytesOfDigest(digest: Digest): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(digest, (character) => character.charCodeAt(0))
}

export function digestOfBytes(bytes: Uint8Array): Digest {
  return String.fromCharCode(...bytes)
}

export function digestToBase64(digest: Digest): string {
  return btoa(digest)
}

/** Undefined unless `text` is the strict base64 of 32 bytes. */
export function digestFromBase64(text: string): Digest | undefined {
  if (text.length !== DIGEST_TEXT_LENGTH) return undefined
  try {
    const digest = atob(text)
    // `atob` also accepts white space and stray bits after the last byte.
    return digest.length === DIGEST_BYTES && btoa(digest) === text ? digest : undefined
  } catch (error) {
    if (error instanceof DOMException) return undefined
    throw error
  }
}
