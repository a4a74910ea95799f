// Shows in one scan that a line is the canonical JSON (RFC 8785) of an object, and finds the members by which a record is
// checked. Parsing a record and writing it again would take several times as long. A line with a form that is rare in a log
// is left to the parser: that the scan does not know a line says nothing about it.

const NAMES = ['key_id', 'log_id', 'lost', 'seq', 'sig', 'tool', 'ts'] as const
type Name = (typeof NAMES)[number]

export interface ScannedLine {
  /** The text of those members that are strings; `lost`, which is none, is empty text. */
  readonly members: { [N in Name]?: string }
  /** Where the member `sig` begins and ends, with the one comma that stands there only for it. */
  readonly signature: readonly [start: number, end: number]
}

const ENCODED_NAMES = NAMES.map((name) => ({ name, bytes: Buffer.from(name) }))
const MAX_DEPTH = 32
const MAX_DIGITS = 15
const LITERALS = new Map(['false', 'null', 'true'].map((text) => [text.charCodeAt(0), Buffer.from(text)]))
/** What follows a backslash in the short escapes, which are the only ones of their characters. */
const ESCAPED = new Set(Buffer.from('"\\bfnrt'))
const QUOTE = 0x22
const COMMA = 0x2c
const MINUS = 0x2d
const ZERO = 0x30
const NINE = 0x39
const COLON = 0x3a
const OPEN_LIST = 0x5b
const BACKSLASH = 0x5c
const CLOSE_LIST = 0x5d
const OPEN = 0x7b
const CLOSE = 0x7d
const SPACE = 0x20
const NOT_ASCII = 0x80
/** The end of something that is not known. */
const UNKNOWN = -1

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** Undefined for a line that is left to the parser, as is one without a member `sig` that is text. */
export function scanLine(line: Buffer): ScannedLine | undefined {
  return new Scan(line).run()
}

class Scan {
  readonly #line: Buffer
  readonly #members: { [N in Name]?: string } = {}
  #signature: readonly [number, number] | undefined
  #isAscii = true

  constructor(line: Buffer) {
    this.#line = line
  }

  run(): ScannedLine | undefined {
    const line = this.#line
    const isWhole = line[0] === OPEN && this.#object(0, 0) === line.length
    const signature = this.#signature
    if (!isWhole || signature === undefined || !(this.#isAscii || isUtf8(line))) return undefined
    return { members: this.#members, signature }
  }

  /** The end of the value that begins there. */
  #value(start: number, depth: number): number {
    const first = this.#line[start]
    if (first === QUOTE) return this.#string(start)
    if (first === OPEN) return depth > MAX_DEPTH ? UNKNOWN : this.#object(start, depth)
    if (first === OPEN_LIST) return depth > MAX_DEPTH ? UNKNOWN : this.#list(start, depth)
    const literal = LITERALS.get(first ?? 0)
    return literal === undefined ? this.#number(start) : this.#literal(start, literal)
  }

  #object(start: number, depth: number): number {
    const line = this.#line
    let at = start + 1
    if (line[at] === CLOSE) return at + 1
    for (let [before, beforeEnd] = [0, 0]; ; at++) {
      const name = at + 1
      const nameEnd = this.#plain(at)
      // Ascending names are unique. ASCII has the order of its UTF-16 code units.
      if (nameEnd === UNKNOWN || line[nameEnd + 1] !== COLON) return UNKNOWN
      if (beforeEnd > 0 && !this.#ascends(before, beforeEnd, name, nameEnd)) return UNKNOWN
      const value = nameEnd + 2
      const end = this.#value(value, depth + 1)
      if (end === UNKNOWN || (depth === 0 && !this.#member(name, nameEnd, value, end))) return UNKNOWN
      if (line[end] === CLOSE) return end + 1
      if (line[end] !== COMMA) return UNKNOWN
      before = name
      beforeEnd = nameEnd
      at = end
    }
  }

  #list(start: number, depth: number): number {
    const line = this.#line
    if (line[start + 1] === CLOSE_LIST) return start + 2
    for (let at = start + 1; ; at++) {
      at = this.#value(at, depth + 1)
      if (at === UNKNOWN) return UNKNOWN
      if (line[at] === CLOSE_LIST) return at + 1
      if (line[at] !== COMMA) return UNKNOWN
    }
  }

  /** Takes a member of the line; false if it is one by which a record is checked, in a form that is not known. */
  #member(name: number, nameEnd: number, value: number, end: number): boolean {
    const line = this.#line
    const known = this.#knownName(name, nameEnd)
    if (known === undefined) return true
    if (known === 'lost') {
      this.#members.lost = ''
      return true
    }
    if (this.#plain(value) !== end - 1) return false
    this.#members[known] = line.toString('latin1', value + 1, end - 1)
    // The comma before it goes with it, or that after the first member.
    if (known === 'sig') {
      const isFirst = name === 2
      this.#signature = isFirst ? [name - 1, line[end] === COMMA ? end + 1 : end] : [name - 2, end]
    }
    return true
  }

  #knownName(start: number, end: number): Name | undefined {
    for (const { name, bytes } of ENCODED_NAMES)
      if (bytes.length === end - start && this.#has(bytes, start)) return name
    return undefined
  }

  #has(bytes: Buffer, start: number): boolean {
    const line = this.#line
    for (let at = 0; at < bytes.length; at++) if (bytes[at] !== line[start + at]) return false
    return true
  }

  /** Whether a name comes after the one before it. */
  #ascends(before: number, beforeEnd: number, name: number, nameEnd: number): boolean {
    const line = this.#line
    for (let [left, right] = [before, name]; right < nameEnd; left++, right++) {
      if (left === beforeEnd) return true
      const difference = (line[right] ?? 0) - (line[left] ?? 0)
      if (difference !== 0) return difference > 0
    }
    return false
  }

  /** The place of the quote that ends a string of ASCII without escapes. */
  #plain(start: number): number {
    const line = this.#line
    if (line[start] !== QUOTE) return UNKNOWN
    for (let at = start + 1; ; at++) {
      const byte = line[at]
      if (byte === QUOTE) return at
      if (byte === undefined || byte < SPACE || byte === BACKSLASH || byte >= NOT_ASCII) return UNKNOWN
    }
  }

  #string(start: number): number {
    const line = this.#line
    for (let at = start + 1; ; at++) {
      const byte = line[at]
      if (byte === QUOTE) return at + 1
      if (byte === undefined || byte < SPACE) return UNKNOWN
      if (byte >= NOT_ASCII) this.#isAscii = false
      if (byte === BACKSLASH && !ESCAPED.has(line[++at] ?? 0)) return UNKNOWN
    }
  }

  #literal(start: number, literal: Buffer): number {
    return this.#has(literal, start) ? start + literal.length : UNKNOWN
  }

  #number(start: number): number {
    const line = this.#line
    let at = start
    while (isDigit(line[at])) at++
    const digits = at - start
    const isInteger = digits > 0 && digits <= MAX_DIGITS && (line[start] !== ZERO || digits === 1)
    if (isInteger && isEnd(line[at])) return at
    if (digits === 0 && !(line[start] === MINUS && isDigit(line[start + 1]))) return UNKNOWN
    while (at < line.length && !isEnd(line[at])) at++
    // The number of ECMAScript as text is the form of RFC 8785 §3.2.2.3.
    const text = line.toString('latin1', start, at)
    return String(Number(text)) === text ? at : UNKNOWN
  }
}

function isDigit(byte = 0): boolean {
  return byte >= ZERO && byte <= NINE
}

/** Whether the byte follows a value in an object or a list. */
function isEnd(byte: number | undefined): boolean {
  return byte === COMMA || byte === CLOSE || byte === CLOSE_LIST
}

function isUtf8(bytes: Uint8Array): boolean {
  try {
    utf8.decode(bytes)
    return true
  } catch (error) {
    if (error instanceof TypeError) return false
    throw error
  }
}
