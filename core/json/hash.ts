// The hash of inputs, outputs, policies and key ids.

import { hash } from 'node:crypto'

/** SHA-256 (FIPS 180-4) in lower-case hex. A string is hashed as its UTF-8 bytes. */
export function sha256Hex(data: string | Uint8Array): string {
  return hash('sha256', data, 'hex')
}
