// Bounds on the structure of JSON text. The engine spends several times as long on a byte of a container or of a new
// member name as on a byte of ordinary text, so text made mostly of them is refused before it is parsed.

/** Maximum number of arrays and objects in one text. */
export const MAX_CONTAINERS = 50_000
/** Maximum number of different member names in one text, as they are spelled. */
export const MAX_NAMES = 10_000

export const QUOTE = 0x22
export const BACKSLASH = 0x5c
const COLON = 0x3a
export const BRACE = 0x7b
export const BRACKET = 0x5b

/**
 * Whether the text has more containers or different member names than parsing may cost. Names are compared by a 32-bit
 * hash, so slightly more pass where hashes collide; for text that is not JSON the result means nothing.
 */
export function isTooLargeToParse(bytes: Uint8Array): boolean {
  const hashes = new Set<number>()
  let containers = 0
  let hash = 0
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]
    if (byte === COLON) {
      hashes.add(hash)
      if (hashes.size > MAX_NAMES) return true
    } else if (byte === BRACE || byte === BRACKET) {
      if (++containers > MAX_CONTAINERS) return true
    } else if (byte === QUOTE) {
      hash = 0x811c9dc5
      for (at++; at < bytes.length && bytes[at] !== QUOTE; at++) {
        if (bytes[at] === BACKSLASH) hash = mix(hash, bytes[at++])
        hash = mix(hash, bytes[at])
      }
    }
  }
  return false
}

/** A step of FNV-1a. */
function mix(hash: number, byte: number | undefined): number {
  return Math.imul(hash ^ (byte ?? 0), 0x01000193)
}
