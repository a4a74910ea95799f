// Bounds on the structure of JSON text. The engine spends several times as long on a byte of a container or of a new
// member name as on a byte of ordinary text, so text made mostly of them is refused before it is parsed.
import { randomInt } from 'node:crypto'
import { getHeapStatistics } from 'node:v8'
import { BACKSLASH, endOfNumber, endOfString, isPlainNumber, MINUS, NINE, QUOTE, ZERO } from './text.js'

/** Maximum number of arrays and objects in one text. */
export const MAX_CONTAINERS = 50_000
/** Maximum number of different member names in one text, as they are spelled. */
export const MAX_NAMES = 10_000

const COLON = 0x3a
export const BRACE = 0x7b
export const BRACKET = 0x5b

/**
 * Whether the text has more containers or different member names than parsing may cost. Names are compared by a 32-bit
 * hash, so slightly more pass if hashes collide; for text that is not JSON the result means nothing.
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

function hashOf(text: string, start: number, end: number): number {
  let hash = seed
  for (let at = start; at < end; at++) hash = mix(hash, text.charCodeAt(at))
  return hash
}

/** A step of FNV-1a. */
function mix(hash: number, byte: number | undefined): number {
  return Math.imul(hash ^ (byte ?? 0), 0x01000193)
}

/**
 * Maximum cost of a text that the gateway may not refuse for its form: the response of a server. One unit is the time
 * for a byte of a string, from parsing to the canonical form; the weights of other things are measured in it. With 64
 * Mi units that is about a second. A smaller heap takes less, as the parsed value is several times the text.
 */
export const MAX_COST = Math.min(67_108_864, Math.floor(getHeapStatistics().heap_size_limit / 16))
const CONTAINER_COST = 64
const VALUE_COST = 24
/** The engine makes a new shape, or a table, for a new name. */
const NAME_COST = 256
/** Deeper values have no canonical form, and other code reads them recursively. */
const MAX_DEPTH = 512
const COMMA = 0x2c
const CLOSING_BRACE = 0x7d
const CLOSING_BRACKET = 0x5d

/** Differs between processes, so that names with equal hashes cannot be prepared. */
const seed = randomInt(2 ** 32)

/** Whether parsing the text, hashing its canonical form and writing it again costs too much, or it is nested too deeply. */
export function isTooCostly(text: string): boolean {
  return measureJson(text) === 'too costly'
}

/** As `isTooCostly`; `plain` and `other` say whether ECMAScript writes all numbers as the text has them, if it was read. */
export function measureJson(text: string): 'too costly' | 'plain' | 'other' | undefined {
  if (text.length <= MAX_DEPTH) return undefined
  let isPlain = true
  const names = new Set<number>()
  let cost = text.length
  let depth = 0
  // The bounds of the string read last, without its quotes.
  let start = 0
  let end = 0
  for (let at = 0; at < text.length && cost <= MAX_COST; at++) {
    const unit = text.charCodeAt(at)
    if (unit === QUOTE) {
      start = at + 1
      at = end = endOfString(text, start)
    } else if (unit === COMMA) cost += VALUE_COST
    else if (unit === COLON) {
      const hash = hashOf(text, start, end)
      // A second colon is not JSON, so the name is not counted again.
      start = end
      if (names.has(hash)) continue
      names.add(hash)
      cost += NAME_COST
    } else if (unit === BRACE || unit === BRACKET) {
      if (++depth > MAX_DEPTH) return 'too costly'
      cost += CONTAINER_COST
    } else if (unit === CLOSING_BRACE || unit === CLOSING_BRACKET) depth--
    else if (unit === MINUS || (unit >= ZERO && unit <= NINE)) {
      const after = endOfNumber(text, at)
      isPlain &&= isPlainNumber(text, at, after)
      at = after - 1
    }
  }
  return cost > MAX_COST ? 'too costly' : isPlain ? 'plain' : 'other'
}
