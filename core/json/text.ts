// JSON text whose numbers keep their text. A number that ECMAScript writes as the text has it is a JavaScript number in the
// parsed value; any other, such as 1.0 or 9007199254740993, is a `JsonNumber`.
import { canonicalToken, compareDecimals, decimalOf } from './number.js'

/** The values of JSON (RFC 8259 §3). */
export type JsonValue = null | boolean | number | JsonNumber | string | JsonArray | JsonObject
type JsonArray = JsonValue[]
export interface JsonObject {
  [name: string]: JsonValue
}

export const QUOTE = 0x22
export const BACKSLASH = 0x5c

/** Most strings are shorter, and for them a loop is faster than a call into native code. */
const SHORT_STRING = 24

/** The index of the closing quote of a string whose content begins at `start`; the end of the text if there is none. */
export function endOfString(text: string, start: number): number {
  const near = Math.min(start + SHORT_STRING, text.length)
  let from = start
  for (; from < near; from++) {
    const unit = text.charCodeAt(from)
    if (unit === QUOTE) return from
    if (unit === BACKSLASH) from++
  }
  for (let at = text.indexOf('"', from); at !== -1; at = text.indexOf('"', at + 1)) {
    let first = at
    while (first > from && text.charCodeAt(first - 1) === BACKSLASH) first--
    if ((at - first) % 2 === 0) return at
  }
  return text.length
}

/** Whether JSON.stringify has met a `JsonNumber` since it was last set to false. */
let isMet = false
/** Whether JSON.stringify is to write each as a string that begins with the mark, which no other string has. */
let isMarking = false
let mark: string | undefined

export class JsonNumber {
  readonly #token: string
  #canonical: string | undefined

  /** @param token a number of RFC 8259 */
  constructor(token: string) {
    this.#token = token
  }

  /** The text as it was written. */
  toString(): string {
    return this.#token
  }

  get canonical(): string {
    this.#canonical ??= canonicalToken(this.#token)
    return this.#canonical
  }

  /** Undefined if no double represents the value. */
  get double(): number | undefined {
    const double = Number(this.#token)
    return String(double) === this.canonical ? double : undefined
  }

  /** In JSON of JavaScript values, such as the lines of the log, a value that no double represents is a string. */
  toJSON(): number | string {
    isMet = true
    if (isMarking) return `${mark} ${this.#token}`
    return this.double ?? this.#token
  }
}

/** A number of a parsed value as a double; undefined for anything else, and for a number that no double represents. */
export function exactDouble(value: unknown): number | undefined {
  if (value instanceof JsonNumber) return value.double
  return typeof value === 'number' ? value : undefined
}

export function isJsonNumber(value: unknown): value is number | JsonNumber {
  return typeof value === 'number' || value instanceof JsonNumber
}

/** Below zero if `a` is less than `b`, zero if they are equal, by their decimals. All are finite. */
export function compareNumbers(a: number | bigint | JsonNumber, b: number | bigint | JsonNumber): number {
  return compareDecimals(decimalOf(String(a)), decimalOf(String(b)))
}

/** Whether `a` is a multiple of `b`, by their decimals. */
export function isMultipleOf(a: number | JsonNumber, b: number | JsonNumber): boolean {
  if (typeof a === 'number' && b === 1) return Number.isInteger(a)
  const [of, by] = [decimalOf(String(a)), decimalOf(String(b))]
  if (of.sign === 0 || by.sign === 0) return of.sign === 0
  const exponent = Math.min(of.exponent, by.exponent)
  const [dividend, divisor] = [of, by].map(
    (one) => BigInt(one.digits) * 10n ** BigInt(one.exponent - exponent),
  )
  return dividend !== undefined && divisor !== undefined && dividend % divisor === 0n
}

/** As JSON.stringify, with each number as it was written. */
export function stringifyJson(value: unknown, space?: number): string {
  isMet = false
  const text = JSON.stringify(value, undefined, space)
  if (!isMet) return text
  mark ??= Array.from(crypto.getRandomValues(new Uint32Array(4)), String).join('-')
  isMarking = true
  try {
    const marked = JSON.stringify(value, undefined, space)
    return marked.replaceAll(new RegExp(`"${mark} ([^"]*)"`, 'g'), '$1')
  } finally {
    isMarking = false
  }
}

/**
 * As JSON.parse, with a `JsonNumber` for each number that ECMAScript would write in another way. `numbers` is as
 * `measureJson` has it. Throws `SyntaxError`.
 */
export function parseJsonText(text: string, numbers?: 'plain' | 'other'): JsonValue {
  const value: JsonValue = JSON.parse(text)
  return numbers === 'other' || (numbers === undefined && hasOtherNumbers(text))
    ? new Reader(text).value()
    : value
}

function hasOtherNumbers(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit === QUOTE) at = endOfString(text, at + 1)
    else if (unit === MINUS || (unit >= ZERO && unit <= NINE)) {
      const end = endOfNumber(text, at)
      if (!isPlainNumber(text, at, end)) return true
      at = end - 1
    }
  }
  return false
}

/** A number of JSON begins with one of these, or a digit between the last two. */
export const MINUS = 0x2d
const POINT = 0x2e
export const ZERO = 0x30
export const NINE = 0x39

/** The index after a number of valid JSON: a letter of one is an `e`. */
export function endOfNumber(text: string, from: number): number {
  let at = from + 1
  for (let unit = text.charCodeAt(at); ; unit = text.charCodeAt(++at)) {
    const isOfNumber =
      (unit >= ZERO && unit <= NINE) ||
      unit === POINT ||
      unit === MINUS ||
      unit === 0x2b ||
      (unit | 0x20) === 0x65
    if (!isOfNumber) return at
  }
}

/** A decimal of up to 15 digits is written as it was read (DBL_DIG of IEEE 754 binary64) if it has no exponent. */
export const SHORT_TOKEN = 15

/** Whether ECMAScript writes the number in this way. */
export function isPlainNumber(text: string, from: number, to: number): boolean {
  if (to - from > SHORT_TOKEN) return isPlainToken(text.slice(from, to))
  let point = -1
  for (let at = from + 1; at < to; at++) {
    const unit = text.charCodeAt(at)
    if (unit === POINT) point = at
    else if (unit > NINE) return isPlainToken(text.slice(from, to))
  }
  // -0 is written as 0, and 0.0000001 with an exponent.
  if (point < 0) return text.charCodeAt(from) !== MINUS || text.charCodeAt(from + 1) !== ZERO
  if (text.charCodeAt(to - 1) === ZERO) return false
  return text.charCodeAt(point + 1) !== ZERO || isPlainToken(text.slice(from, to))
}

export function isPlainToken(token: string): boolean {
  return String(Number(token)) === token
}

/** Reads text that JSON.parse accepts. */
class Reader {
  #at = 0

  constructor(readonly text: string) {}

  value(): JsonValue {
    const start = this.#token()
    switch (this.text[start]) {
      case '{':
        return this.#object()
      case '[':
        return this.#array()
      case '"':
        return this.#string()
      case 't':
        this.#at += 4
        return true
      case 'f':
        this.#at += 5
        return false
      case 'n':
        this.#at += 4
        return null
    }
    this.#at = endOfNumber(this.text, start)
    const token = this.text.slice(start, this.#at)
    return isPlainToken(token) ? Number(token) : new JsonNumber(token)
  }

  /** Moves to the next token. */
  #token(): number {
    while (this.text.charCodeAt(this.#at) <= 0x20) this.#at++
    return this.#at
  }

  #object(): JsonObject {
    const object: JsonObject = {}
    this.#at++
    while (this.text[this.#token()] !== '}') {
      if (this.text[this.#at] === ',') this.#at = this.#token() + 1
      this.#token()
      const name = this.#string()
      this.#at = this.#token() + 1
      const value = this.value()
      if (name !== '__proto__') object[name] = value
      else
        Object.defineProperty(object, name, { value, configurable: true, enumerable: true, writable: true })
    }
    this.#at++
    return object
  }

  #array(): JsonValue[] {
    const items: JsonValue[] = []
    this.#at++
    while (this.text[this.#token()] !== ']') {
      if (this.text[this.#at] === ',') this.#at++
      items.push(this.value())
    }
    this.#at++
    return items
  }

  #string(): string {
    const start = this.#at
    const end = endOfString(this.text, start + 1)
    this.#at = end + 1
    const inner = this.text.slice(start + 1, end)
    return inner.includes('\\') ? String(JSON.parse(this.text.slice(start, this.#at))) : inner
  }
}
