// Finds the first error of JSON text and its position. It runs only on text that the fast path of parse.ts refused: the
// complete grammar of RFC 8259, linear in the input, with limited recursion.

import { isUtf8 } from 'node:buffer'
import { JsonInputError } from './input-error.js'
import { isExactNumber, isOutOfBounds, NUMBER } from './number.js'
import { MAX_CONTAINERS, MAX_NAMES } from './structure.js'

/** Maximum nesting of containers: a scalar has depth 0, `[]` has 1. */
export const MAX_DEPTH = 512

const MAX_SHOWN = 64

/** The first error in the text by position; undefined for strict JSON. `isExact` as `exact` in `parseJson`. */
export function firstError(bytes: Uint8Array, isExact: boolean): JsonInputError | undefined {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (buffer[0] === 0xef && buffer[1] === 0xbb && buffer[2] === 0xbf)
    return new JsonInputError('byte_order_mark', 'a byte order mark, which is not allowed,', 0)
  if (!isUtf8(buffer))
    return new JsonInputError('invalid_utf8', 'bytes that are not UTF-8', firstInvalidByte(buffer))
  try {
    new Reader(buffer, isExact).document()
    return undefined
  } catch (error) {
    if (error instanceof JsonInputError) return error
    throw error
  }
}

/** Decodes with replacement, and finds the first U+FFFD that is not in the input itself. */
function firstInvalidByte(buffer: Buffer): number {
  const text = buffer.toString('utf8')
  let offset = 0
  let from = 0
  for (;;) {
    const at = text.indexOf('\ufffd', from)
    if (at < 0) return offset
    offset += Buffer.byteLength(text.slice(from, at))
    if (buffer[offset] !== 0xef || buffer[offset + 1] !== 0xbf || buffer[offset + 2] !== 0xbd) return offset
    offset += 3
    from = at + 1
  }
}

class Reader {
  private at = 0
  private depth = 0
  private containers = 0
  /** The different names of the whole text, as they are spelled. */
  private readonly spellings = new Set<string>()

  constructor(
    private readonly bytes: Buffer,
    private readonly isExact: boolean,
  ) {}

  document(): void {
    this.item()
    if (this.at < this.bytes.length) throw this.unexpected()
  }

  private value(): void {
    const byte = this.bytes[this.at]
    if (byte === 0x7b) this.object()
    else if (byte === 0x5b) this.array()
    else if (byte === 0x22) this.skipString()
    else if (byte === 0x74) this.word('true')
    else if (byte === 0x66) this.word('false')
    else if (byte === 0x6e) this.word('null')
    else this.number()
  }

  private object(): void {
    this.enter()
    const names = new Set<string>()
    this.space()
    if (!this.take(0x7d)) {
      do this.member(names)
      while (this.take(0x2c))
      if (!this.take(0x7d)) throw this.unexpected()
    }
    this.depth--
  }

  private member(names: Set<string>): void {
    this.space()
    const start = this.at
    const name = this.name()
    if (names.has(name)) {
      const shown = name.length <= MAX_SHOWN ? ` ${JSON.stringify(name)}` : ''
      throw new JsonInputError('duplicate_member', `the member name${shown} a second time`, start)
    }
    names.add(name)
    this.spellings.add(this.bytes.toString('latin1', start, this.at))
    if (this.spellings.size > MAX_NAMES)
      throw new JsonInputError('too_many_names', `more than ${MAX_NAMES} different member names`, start)
    this.space()
    if (!this.take(0x3a)) throw this.unexpected()
    this.item()
  }

  private array(): void {
    this.enter()
    this.space()
    if (!this.take(0x5d)) {
      do this.item()
      while (this.take(0x2c))
      if (!this.take(0x5d)) throw this.unexpected()
    }
    this.depth--
  }

  private item(): void {
    this.space()
    this.value()
    this.space()
  }

  private name(): string {
    const start = this.at
    if (!this.skipString()) return this.bytes.toString('utf8', start + 1, this.at - 1)
    const text: unknown = JSON.parse(this.bytes.toString('utf8', start, this.at))
    return String(text)
  }

  /** Returns whether the string has escapes. */
  private skipString(): boolean {
    if (!this.take(0x22)) throw this.unexpected()
    let escapes = false
    while (!this.take(0x22)) {
      const byte = this.bytes[this.at]
      if (byte === undefined || byte < 0x20) throw this.unexpected()
      if (byte === 0x5c) {
        escapes = true
        this.escape()
      } else this.at++
    }
    return escapes
  }

  private escape(): void {
    const start = this.at
    this.at++
    const letter = this.bytes[this.at]
    if (letter !== 0x75) {
      if (letter === undefined || !'"\\/bfnrt'.includes(String.fromCharCode(letter))) throw this.unexpected()
      this.at++
      return
    }
    const unit = this.hex()
    if (unit < 0xd800 || unit > 0xdfff) return
    const paired =
      unit < 0xdc00 && this.bytes[this.at] === 0x5c && this.bytes[this.at + 1] === 0x75 ? this.low() : false
    if (!paired) throw new JsonInputError('lone_surrogate', 'half of a surrogate pair', start)
  }

  private low(): boolean {
    this.at++
    const unit = this.hex()
    return unit >= 0xdc00 && unit <= 0xdfff
  }

  /** Reads `uXXXX`. */
  private hex(): number {
    this.at++
    for (let i = 0; i < 4; i++) {
      const byte = this.bytes[this.at + i]
      if (byte === undefined || !/[0-9a-fA-F]/.test(String.fromCharCode(byte))) {
        this.at += i
        throw this.unexpected()
      }
    }
    this.at += 4
    return Number.parseInt(this.bytes.toString('latin1', this.at - 4, this.at), 16)
  }

  private number(): void {
    const start = this.at
    while (isNumberByte(this.bytes[this.at])) this.at++
    // One digit, the commonest number of hostile text, needs no decoding.
    if (this.at - start === 1 && isDigit(this.bytes[start])) return
    const token = this.bytes.toString('latin1', start, this.at)
    if (!NUMBER.test(token)) {
      if (token === '') throw this.unexpected()
      throw new JsonInputError('not_json', 'a malformed number', start)
    }
    if (this.isExact && isOutOfBounds(token))
      throw new JsonInputError(
        'number_out_of_bounds',
        'a number of more than 64 characters, or with an exponent beyond 400,',
        start,
      )
    if (!this.isExact && !isExactNumber(token)) {
      const shown = token.length <= MAX_SHOWN ? ` ${token}` : ''
      throw new JsonInputError(
        'number_not_exact',
        `the number${shown}, which a double cannot represent exactly,`,
        start,
      )
    }
  }

  private word(word: string): void {
    for (const letter of word) {
      if (!this.take(letter.charCodeAt(0))) throw this.unexpected()
    }
  }

  private enter(): void {
    if (++this.depth > MAX_DEPTH)
      throw new JsonInputError('too_deep', `nesting deeper than ${MAX_DEPTH} levels`, this.at)
    if (++this.containers > MAX_CONTAINERS)
      throw new JsonInputError(
        'too_many_containers',
        `more than ${MAX_CONTAINERS} arrays and objects`,
        this.at,
      )
    this.at++
  }

  private take(byte: number): boolean {
    if (this.bytes[this.at] !== byte) return false
    this.at++
    return true
  }

  private space(): void {
    let byte = this.bytes[this.at]
    while (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) byte = this.bytes[++this.at]
  }

  private unexpected(): JsonInputError {
    const what =
      this.at < this.bytes.length ? 'not JSON: an unexpected character' : 'not JSON: the text ends too early,'
    return new JsonInputError('not_json', what, this.at)
  }
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39
}

export function isNumberByte(byte: number | undefined): boolean {
  return (
    byte !== undefined &&
    ((byte >= 0x30 && byte <= 0x39) ||
      byte === 0x2e ||
      byte === 0x2d ||
      byte === 0x2b ||
      byte === 0x65 ||
      byte === 0x45)
  )
}
