// Parses a stored line as far as readers need it.

import { CanonicalJsonError, canonicalize, parseJsonObject } from '@svc/core/json/portable'

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The text of a line, or undefined if its bytes are not UTF-8. */
export function lineText(bytes: Uint8Array): string | undefined {
  try {
    return utf8.decode(bytes)
  } catch (error) {
    if (error instanceof TypeError) return undefined
    throw error
  }
}

/** The JSON object in a line, or undefined if it holds none. */
export function objectIn(line: Uint8Array): Record<string, unknown> | undefined {
  const text = lineText(line)
  return text === undefined ? undefined : parseJsonObject(text)
}

/** The canonical JSON (RFC 8785) of a value, or undefined if it has none. */
export function canonicalText(value: unknown): string | undefined {
  try {
    return canonicalize(value)
  } catch (error) {
    if (error instanceof CanonicalJsonError) return undefined
    throw error
  }
}
