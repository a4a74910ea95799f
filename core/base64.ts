// Base64 as RFC 4648 §4 has it, padded and strict: two texts never mean the same bytes, so a signature
// has exactly one stored form.

export class Base64Error extends TypeError {
  readonly code = 'malformed_base64'

  constructor() {
    super('malformed base64: expected the padded standard alphabet of RFC 4648 §4')
    this.name = 'Base64Error'
  }
}

export function toBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
}

/** @throws {Base64Error} for another alphabet, white space, missing padding or stray trailing bits. */
export function fromBase64(text: string): Uint8Array {
  const bytes = Buffer.from(text, 'base64')
  // Node's decoder forgives; a text that does not come back the same was not strict base64.
  if (bytes.toString('base64') !== text) throw new Base64Error()
  return new Uint8Array(bytes)
}
