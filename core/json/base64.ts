// Base64 of RFC 4648 §4, padded and strict: each sequence of bytes has exactly one text, so a signature has exactly one
// stored form. Pages load it too, so it uses nothing of Node.

export class Base64Error extends TypeError {
  readonly code = 'malformed_base64'

  constructor() {
    super('malformed base64: expected the padded standard alphabet of RFC 4648 §4')
    this.name = 'Base64Error'
  }
}

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
const ALPHABET = Uint8Array.from(DIGITS, (digit) => digit.charCodeAt(0))
/** The value of each digit by its code; -1 for other characters. */
const VALUES = new Int8Array(128).fill(-1)
for (const [value, code] of ALPHABET.entries()) VALUES[code] = value
const PAD = 0x3d
const ascii = new TextDecoder()

export function toBase64(bytes: Uint8Array): string {
  const text = new Uint8Array(4 * Math.ceil(bytes.length / 3))
  writeBase64(bytes, text, 0)
  return ascii.decode(text)
}

/** Writes the result of `toBase64` into `target` at `at`. Returns the end of the text. */
export function writeBase64(bytes: Uint8Array, target: Uint8Array, at: number): number {
  let end = at
  for (let i = 0; i < bytes.length; i += 3) {
    const left = bytes.length - i
    const group = ((bytes[i] ?? 0) << 16) | ((bytes[i + 1] ?? 0) << 8) | (bytes[i + 2] ?? 0)
    target[end++] = ALPHABET[group >> 18] as number
    target[end++] = ALPHABET[(group >> 12) & 63] as number
    target[end++] = left > 1 ? (ALPHABET[(group >> 6) & 63] as number) : PAD
    target[end++] = left > 2 ? (ALPHABET[group & 63] as number) : PAD
  }
  return end
}

/** Returns undefined for another alphabet, white space, missing padding or stray trailing bits. */
export function parseBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  const { length } = text
  if (length % 4 !== 0) return undefined
  const padding = !text.endsWith('=') ? 0 : text.endsWith('==') ? 2 : 1
  const bytes = new Uint8Array((length / 4) * 3 - padding)
  const whole = padding === 0 ? length : length - 4
  let end = 0
  for (let at = 0; at < whole; at += 4) {
    const group = groupOf(
      valueAt(text, at),
      valueAt(text, at + 1),
      valueAt(text, at + 2),
      valueAt(text, at + 3),
    )
    if (group < 0) return undefined
    bytes[end++] = group >> 16
    bytes[end++] = (group >> 8) & 0xff
    bytes[end++] = group & 0xff
  }
  if (padding === 0) return bytes
  const third = padding === 1 ? valueAt(text, whole + 2) : 0
  const last = groupOf(valueAt(text, whole), valueAt(text, whole + 1), third, 0)
  // The bits after the last byte are zero in the only text of these bytes.
  if (last < 0 || (last & (padding === 1 ? 0xff : 0xffff)) !== 0) return undefined
  bytes[end++] = last >> 16
  if (padding === 1) bytes[end] = (last >> 8) & 0xff
  return bytes
}

function valueAt(text: string, at: number): number {
  const code = text.charCodeAt(at)
  return code < 128 ? (VALUES[code] as number) : -1
}

/** The 24 bits of four digits; negative if one of them is not a digit. */
function groupOf(a: number, b: number, c: number, d: number): number {
  return (a | b | c | d) < 0 ? -1 : (a << 18) | (b << 12) | (c << 6) | d
}

/** @throws {Base64Error} if `parseBase64` returns undefined. */
export function fromBase64(text: string): Uint8Array {
  const bytes = parseBase64(text)
  if (bytes === undefined) throw new Base64Error()
  return bytes
}
