// A short redacted preview of a payload.

import type { Redactor } from '@svc/core'
import { redactPii } from '@svc/core/pii'

// Redaction reads beyond the preview, so that a secret that crosses its end is recognised.
const MARGIN_BYTES = 1_024

interface Preview {
  readonly text: string
  /** Whether the payload is longer than the preview. */
  readonly isTruncated: boolean
}

/** How many bytes of a payload's start `previewOf` needs. */
export function windowBytes(previewBytes: number): number {
  return previewBytes + MARGIN_BYTES
}

/**
 * At most `previewBytes` of UTF-8, cut between characters.
 *
 * @param head the first `windowBytes` of the payload, or all of it. Invalid UTF-8 becomes U+FFFD.
 * @param totalBytes of the whole payload.
 * @param redactor removes identities if the policy requires it.
 */
export function previewOf(
  head: Uint8Array,
  totalBytes: number,
  previewBytes: number,
  redactor?: Redactor,
): Preview {
  const window = head.subarray(0, windowBytes(previewBytes))
  const isWhole = totalBytes <= window.length
  const text = decode(isWhole ? window : wholeCharacters(window))
  const clean = Buffer.from(redactPii(redactor === undefined ? text : redactor.text(text)))
  // A secret that the window cuts is not recognised by its first half: that half lies in the margin.
  const usable = isWhole ? clean.length : Math.max(0, clean.length - MARGIN_BYTES)
  const kept = wholeCharacters(clean.subarray(0, Math.min(usable, previewBytes)), clean)
  return { text: decode(kept), isTruncated: !isWhole || kept.length < clean.length }
}

/** Removes an incomplete UTF-8 sequence (RFC 3629 §3) from the end. */
function wholeCharacters(bytes: Uint8Array, all?: Uint8Array): Uint8Array {
  if (all !== undefined && bytes.length === all.length) return bytes
  for (let back = 1; back <= Math.min(4, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0
    if ((byte & 0xc0) === 0x80) continue
    const length = byte < 0x80 ? 1 : byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1
    return length > back ? bytes.subarray(0, bytes.length - back) : bytes
  }
  return bytes
}

function decode(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)
}
