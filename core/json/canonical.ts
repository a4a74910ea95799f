// Canonical JSON (RFC 8785): the serialisation that is signed, hashed and stored. Every call uses it at least twice, so
// it is a single traversal that writes bytes: text that grows by concatenation has an object for each piece.

import { type CanonicalJsonCode, CanonicalJsonError } from './errors.js'
import { type ObjectShape, placeBeside, sortedShape, TAKEN } from './shape.js'
import { JsonNumber } from './text.js'

const MAX_DEPTH = 512
const QUOTE = 0x22
const COMMA = 0x2c

/** Whatever is not ASCII, or must be escaped in a JSON string (RFC 8785 §3.2.2.2). */
const NOT_PLAIN = /[^\x20\x21\x23-\x5b\x5d-\x7f]/

// Below these lengths a loop is faster than a call into native code.
const SHORT_TEXT = 128
const SHORT_BYTES = 32

/** Bytes that one unit of UTF-16 takes at most. */
const BYTES_PER_UNIT = 3

const INITIAL_BYTES = 65_536
/** A larger buffer is not kept. */
const MAX_KEPT_BYTES = 1_048_576

// The bytes that are written, up to `at`. A `toJSON` may canonicalise in the middle of a traversal: it writes behind what
// is there, and takes its result away.
let bytes = new Uint8Array(INITIAL_BYTES)
let at = 0

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** Makes room for `count` more bytes. Callers look first whether there is room, as there nearly always is. */
function grow(count: number): void {
  const larger = new Uint8Array(Math.max(2 * bytes.length, at + count))
  larger.set(bytes.subarray(0, at))
  bytes = larger
}

/** Ends a traversal that began at `start`: what it has written is free again. */
function release(start: number): void {
  at = start
  if (start === 0 && bytes.length > MAX_KEPT_BYTES) bytes = new Uint8Array(INITIAL_BYTES)
}

/** The error while unwinding; each frame adds its segment of the path. */
class Violation {
  segments: (string | number)[] = []

  constructor(
    public code: CanonicalJsonCode,
    readonly origin?: object,
  ) {}

  /** Called by the frame of `container` while unwinding. */
  within(container: object, segment: string | number): this {
    this.segments.push(segment)
    // Only the depth is checked on the way down. If an ancestor is the object that exceeded it, the value has a cycle,
    // and the path ends at its outermost occurrence.
    if (container === this.origin) {
      this.code = 'cycle'
      this.segments.length = 0
    }
    return this
  }
}

function writeText(text: string): void {
  const { length } = text
  if (bytes.length - at < length * BYTES_PER_UNIT) grow(length * BYTES_PER_UNIT)
  let i = 0
  if (length < SHORT_TEXT) {
    for (; i < length; i++) {
      const unit = text.charCodeAt(i)
      if (unit > 0x7f) break
      bytes[at + i] = unit
    }
  }
  if (i === length) at += length
  else at += encoder.encodeInto(text, bytes.subarray(at)).written
}

function writeByte(byte: number): void {
  if (bytes.length - at < 1) grow(1)
  bytes[at++] = byte
}

/** `text` as a JSON string literal with the escapes of RFC 8785. */
function quoteJson(text: string): string {
  if (!text.isWellFormed()) throw new Violation('lone_surrogate')
  // For well-formed strings ECMAScript uses the escapes of RFC 8785.
  return JSON.stringify(text)
}

function writeString(text: string): void {
  const { length } = text
  if (length >= SHORT_TEXT) {
    writeText(NOT_PLAIN.test(text) ? quoteJson(text) : `"${text}"`)
    return
  }
  if (bytes.length - at < length + 2) grow(length + 2)
  let end = at
  bytes[end++] = QUOTE
  for (let i = 0; i < length; i++) {
    const unit = text.charCodeAt(i)
    if (unit < 0x20 || unit > 0x7f || unit === 0x22 || unit === 0x5c) {
      writeText(quoteJson(text))
      return
    }
    bytes[end++] = unit
  }
  bytes[end++] = QUOTE
  at = end
}

/** Writes the JSON of `value`; false if JSON.stringify would omit the member. */
function write(value: unknown, key: string | number, depth: number): boolean {
  switch (typeof value) {
    case 'string':
      writeString(value)
      return true
    case 'number':
      // ECMAScript's Number-to-String is the form of RFC 8785 §3.2.2.3; -0 becomes 0.
      if (!Number.isFinite(value)) throw new Violation('non_finite_number')
      writeText(`${value}`)
      return true
    case 'boolean':
      writeText(value ? 'true' : 'false')
      return true
    case 'object':
      if (value !== null) return writeObject(value, key, depth)
      writeText('null')
      return true
    case 'undefined':
      return false
    case 'function':
      throw new Violation('function_value')
    case 'symbol':
      throw new Violation('symbol_value')
    default:
      throw new Violation('bigint_value')
  }
}

function writeObject(value: object, key: string | number, depth: number): boolean {
  const { toJSON } = value as { toJSON?: unknown }
  if (typeof toJSON === 'function') {
    if (isExact && value instanceof JsonNumber) {
      if (value.double === undefined && range !== 'overflow')
        range = Number.isFinite(Number(value)) ? 'exact' : 'overflow'
      writeText(value.canonical)
      return true
    }
    const replacement: unknown = toJSON.call(value, `${key}`)
    if (typeof replacement !== 'object' || replacement === null) return write(replacement, key, depth)
    value = replacement
  }
  if (depth >= MAX_DEPTH) throw new Violation('too_deep', value)
  if (Array.isArray(value)) return writeArray(value, depth + 1)
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) {
    if (value instanceof Number || value instanceof String || value instanceof Boolean) {
      return write(value.valueOf(), key, depth)
    }
    if (value instanceof Map || value instanceof Set) throw new Violation('unsupported_object')
  }
  const shape = sortedShape(value, quoteJson)
  writeByte(0x7b)
  writeMembers(value as Record<string, unknown>, shape, 0, shape.keys.length, depth + 1, true)
  writeByte(0x7d)
  return true
}

function writeArray(items: readonly unknown[], depth: number): true {
  writeByte(0x5b)
  let i = 0
  try {
    for (; i < items.length; i++) {
      if (i > 0) writeByte(COMMA)
      if (!write(items[i], i, depth)) throw new Violation(i in items ? 'undefined_value' : 'sparse_array')
    }
  } catch (error) {
    throw error instanceof Violation ? error.within(items, i) : error
  }
  writeByte(0x5d)
  return true
}

/**
 * Writes the members of `object` at `[from, to)` of its shape, in RFC 8785 order (UTF-16 code units), without the braces.
 * Returns whether the next member is still the first.
 */
function writeMembers(
  object: Record<string, unknown>,
  shape: ObjectShape,
  from: number,
  to: number,
  depth: number,
  isFirst: boolean,
): boolean {
  const { keys, labels, nullMembers } = shape
  let key = ''
  try {
    for (let i = from; i < to; i++) {
      key = keys[i] as string
      const value = object[key]
      if (value === undefined) continue
      const before = at
      const label = (value === null ? nullMembers[i] : labels[i]) as Uint8Array
      // In this frame, as a record has dozens of members.
      const { length } = label
      if (bytes.length - at <= length) grow(length + 1)
      if (!isFirst) bytes[at++] = COMMA
      if (length > SHORT_BYTES) bytes.set(label, at)
      else for (let j = 0; j < length; j++) bytes[at + j] = label[j] as number
      at += length
      if (typeof value === 'string') writeString(value)
      else if (value !== null && !write(value, key, depth)) {
        at = before
        continue
      }
      isFirst = false
    }
  } catch (error) {
    throw error instanceof Violation ? error.within(object, key) : error
  }
  return isFirst
}

function publicError(error: unknown): unknown {
  return error instanceof Violation ? new CanonicalJsonError(error.code, error.segments.reverse()) : error
}

/** Whether the traversal writes numbers with all their digits. */
let isExact = false
/** The largest range of a number that it has met. */
let range: ExactText['range'] = 'double'

/**
 * The canonical JSON text of `value` (RFC 8785). As with JSON.stringify, `toJSON` is called and undefined members are
 * omitted. A `JsonNumber` is written as `canonicalizeExact` writes it.
 *
 * @throws {CanonicalJsonError} for a value without an exact JSON form; its `path` locates it.
 */
export function canonicalize(value: unknown): string {
  const start = at
  const outer = isExact
  isExact = true
  try {
    if (!write(value, '', 0)) throw new Violation('undefined_value')
    return decoder.decode(bytes.subarray(start, at))
  } catch (error) {
    throw publicError(error)
  } finally {
    isExact = outer
    release(start)
  }
}

export interface ExactText {
  readonly text: string
  /**
   * `double`: as RFC 8785 has it. `exact`: it has a number that no double represents; `overflow`: one beyond the largest.
   */
  readonly range: 'double' | 'exact' | 'overflow'
}

/**
 * The canonical JSON text of a value whose numbers keep their text: as `canonicalize`, with all significant digits of each
 * `JsonNumber` in the layout of ECMAScript. This is what is hashed and compared.
 *
 * @throws {CanonicalJsonError} as `canonicalize`
 */
export function canonicalizeExact(value: unknown): ExactText {
  range = 'double'
  const text = canonicalize(value)
  return { text, range }
}

/** A member that the object does not have, as text. */
export interface WrittenMember {
  readonly name: string
  /** Its canonical text, `"name":value`. */
  readonly text: string
}

/**
 * Canonicalizes `object` once, with the position of the member `name`, so that the JSON without that member (for
 * signing) and with it (for storage) come from one traversal. `more` are further members before it, in canonical order:
 * they are cheaper as text than a copy of the object that has them.
 *
 * Returns the result of `take` for the bytes, which are valid until it returns, and for the position: the end of the last
 * member before, without a trailing comma.
 *
 * @throws {CanonicalJsonError} as `canonicalize`, and when `object` has one of the named members.
 */
export function canonicalizeAround<T>(
  object: object,
  name: string,
  more: readonly WrittenMember[],
  take: (bytes: Uint8Array, headEnd: number) => T,
): T {
  const members = object as Record<string, unknown>
  const start = at
  try {
    const shape = sortedShape(object, quoteJson)
    let isFirst = true
    let from = 0
    writeByte(0x7b)
    for (const member of more) {
      const to = placeBeside(shape, member.name)
      if (to === TAKEN) throw new Violation('reserved_member').within(object, member.name)
      isFirst = writeMembers(members, shape, from, to, 1, isFirst)
      if (!isFirst) writeByte(COMMA)
      writeText(member.text)
      isFirst = false
      from = to
    }
    const to = placeBeside(shape, name)
    if (to === TAKEN) throw new Violation('reserved_member').within(object, name)
    isFirst = writeMembers(members, shape, from, to, 1, isFirst)
    const headEnd = at - start
    writeMembers(members, shape, to, shape.keys.length, 1, isFirst)
    writeByte(0x7d)
    return take(bytes.subarray(start, at), headEnd)
  } catch (error) {
    throw publicError(error)
  } finally {
    release(start)
  }
}
