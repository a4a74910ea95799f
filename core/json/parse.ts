// Strict JSON parsing of requests. The gateway checks the parsed value and forwards it serialised again, so text that
// two parsers could read differently is refused.
//
// One pass over the bytes finds text that the native parser accepts and this one refuses, or that costs too much to
// parse. Then the native parser parses, and the number of members in the value is compared with that in the text.
// diagnose.ts creates the error.

import { isAscii, isUtf8 } from 'node:buffer'
import { firstError, isNumberByte, MAX_DEPTH } from './diagnose.js'
import { isExactNumber, isOutOfBounds } from './number.js'
import { isTooLargeToParse, MAX_CONTAINERS, MAX_NAMES } from './structure.js'
import { isPlainToken, JsonNumber, parseJsonText, SHORT_TOKEN } from './text.js'
import type { JsonValue } from './value.js'

/**
 * The value of JSON text (RFC 8259) that every parser reads alike. With `exact` numbers it has a `JsonNumber` for each that
 * ECMAScript would write in another way.
 *
 * @throws {JsonInputError} for anything but JSON in UTF-8 without a byte order mark, and for duplicate member
 *   names (compared unescaped), numbers that a double cannot represent (`exact`: of more than 64 characters or with an
 *   exponent beyond 400), lone surrogates, depth over 512, more than 50,000 containers, and more than 10,000 different member
 *   names.
 */
export function parseJson(bytes: Uint8Array, numbers: 'double' | 'exact' = 'double'): JsonValue {
  const isExact = numbers === 'exact'
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (!isUtf8(buffer)) throw error(bytes, isExact)
  const text = buffer.toString(isAscii(buffer) ? 'latin1' : 'utf8')
  const members = scan(buffer, isExact)
  if (members === REFUSED || (members > MAX_NAMES && isTooLargeToParse(buffer))) throw error(bytes, isExact)
  let value: JsonValue
  try {
    value = isExact && hasOtherNumbers ? parseJsonText(text) : JSON.parse(text)
  } catch (cause) {
    throw error(bytes, isExact, cause)
  }
  if (members > 1 && countMembers(value) !== members) throw error(bytes, isExact)
  return value
}

function error(bytes: Uint8Array, isExact: boolean, cause?: unknown): Error {
  // Without a diagnosis this module has a bug; the text is still refused.
  return firstError(bytes, isExact) ?? new Error('JSON was refused without a reason', { cause })
}

const REFUSED = -1

/** Whether the text that was scanned last has a number that ECMAScript writes in another way. */
let hasOtherNumbers = false

/** The number of members written in JSON, or REFUSED; for other text, any number. */
function scan(bytes: Buffer, isExact: boolean): number {
  const end = bytes.length
  let members = 0
  let depth = 0
  let containers = 0
  let at = 0
  hasOtherNumbers = false
  while (at < end) {
    const byte = bytes[at]
    if (byte === undefined) break
    if (byte === 0x22) {
      at = skipString(bytes, at + 1)
      if (at === REFUSED) return REFUSED
    } else if (byte === 0x3a) {
      members++
      at++
    } else if (byte === 0x7b || byte === 0x5b) {
      if (++depth > MAX_DEPTH || ++containers > MAX_CONTAINERS) return REFUSED
      at++
    } else if (byte === 0x7d || byte === 0x5d) {
      depth--
      at++
    } else if (byte === 0x2d || (byte >= 0x30 && byte <= 0x39)) {
      at = skipNumber(bytes, at, isExact)
      if (at === REFUSED) return REFUSED
    } else {
      at++
    }
  }
  return members
}

/** The offset of the byte after the closing quote of a string whose content begins at `from`. */
function skipString(bytes: Buffer, from: number): number {
  let at = from
  for (;;) {
    const byte = bytes[at]
    if (byte === 0x22 || byte === undefined) return at + 1
    if (byte === 0x5c) {
      if (bytes[at + 1] !== 0x75) at += 2
      else {
        const length = escapedLength(bytes, at)
        if (length === REFUSED) return REFUSED
        at += length
      }
    } else at++
  }
}

/** The bytes of the `\uXXXX` at `at`, a surrogate pair taken whole; REFUSED for half of one. */
function escapedLength(bytes: Buffer, at: number): number {
  const kind = surrogateKind(bytes, at)
  if (kind === NOT_SURROGATE) return 6
  return kind === HIGH && surrogateKind(bytes, at + 6) === LOW ? 12 : REFUSED
}

const NOT_SURROGATE = 0
const HIGH = 1
const LOW = 2

/** By the first two hexadecimal digits: D8 to DB start a pair, DC to DF end one. */
function surrogateKind(bytes: Buffer, at: number): number {
  if (bytes[at] !== 0x5c || bytes[at + 1] !== 0x75) return NOT_SURROGATE
  const first = bytes[at + 2]
  if (first !== 0x64 && first !== 0x44) return NOT_SURROGATE
  const second = bytes[at + 3] ?? 0
  if (second < 0x38) return NOT_SURROGATE
  return second === 0x38 || second === 0x39 || (second | 0x20) === 0x61 || (second | 0x20) === 0x62
    ? HIGH
    : LOW
}

/** The offset of the byte after the number, or REFUSED if it is not accepted. */
function skipNumber(bytes: Buffer, from: number, isExact: boolean): number {
  let at = from
  let point = -1
  let isDecimal = true
  for (let byte = bytes[at]; isNumberByte(byte); byte = bytes[++at]) {
    if (byte === 0x2e) point = at
    else if (byte === 0x65 || byte === 0x45) isDecimal = false
  }
  if (isDecimal && at - from <= SHORT_TOKEN) {
    // -0 is written as 0, and 0.0000001 with an exponent.
    if (
      point < 0
        ? bytes[from] !== 0x2d || bytes[from + 1] !== 0x30
        : bytes[at - 1] !== 0x30 && bytes[point + 1] !== 0x30
    )
      return at
  }
  const token = bytes.toString('latin1', from, at)
  if (!isPlainToken(token)) {
    if (isExact ? isOutOfBounds(token) : !isExactNumber(token)) return REFUSED
    hasOtherNumbers = true
  }
  return at
}

// V8 optimises this form of the check within for-in, and not Object.hasOwn.
const owns = Object.prototype.hasOwnProperty

/** The number of members in the parsed value, whose depth was checked. */
function countMembers(value: JsonValue): number {
  if (typeof value !== 'object' || value === null || value instanceof JsonNumber) return 0
  let members = 0
  if (Array.isArray(value)) {
    for (const item of value) if (typeof item === 'object' && item !== null) members += countMembers(item)
    return members
  }
  for (const name in value) {
    if (!owns.call(value, name)) continue
    members++
    const member = value[name]
    if (typeof member === 'object' && member !== null) members += countMembers(member)
  }
  return members
}
