// Bytes, their text forms and SHA-256, with what browsers and Node have in common. No module of this folder imports
// another one than those of this folder: the evidence page has them as its script.

export type Bytes = Uint8Array<ArrayBuffer>

const utf8 = new TextEncoder()
const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

export function textBytes(text: string): Bytes {
  return new Uint8Array(utf8.encode(text))
}

/** Undefined if the bytes are not UTF-8. */
export function utf8Text(bytes: Bytes): string | undefined {
  try {
    return strictUtf8.decode(bytes)
  } catch (error) {
    if (error instanceof TypeError) return undefined
    throw error
  }
}

export function hexOf(bytes: Bytes): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** The bytes of base64 (RFC 4648 §4) with padding and without stray bits; undefined for any other text. */
export function strictBase64(text: string): Bytes | undefined {
  const padding = /={0,2}$/.exec(text)?.[0].length ?? 0
  const digits = text.slice(0, text.length - padding)
  if (text.length % 4 !== 0 || /[^A-Za-z0-9+/]/.test(digits)) return undefined
  if (padding === 1 && !/[AEIMQUYcgkosw048]$/.test(digits)) return undefined
  if (padding === 2 && !/[AQgw]$/.test(digits)) return undefined
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
}

export async function sha256(...parts: readonly Bytes[]): Promise<Bytes> {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return new Uint8Array(await crypto.subtle.digest('SHA-256', whole))
}
