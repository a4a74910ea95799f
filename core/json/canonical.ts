// Canonical JSON (RFC 8785): the serialisation that is signed, hashed and stored. Every call uses it at least twice, so
// it is a single traversal that allocates only its result.

import { type CanonicalJsonCode, CanonicalJsonError } from './errors.js'
import { type ObjectShape, placeOf, sortedShape } from './shape.js'

const MAX_DEPTH = 512
// The frequent paths concatenate strings: V8 converts each value of a template, even if it is a string.
const QUOTE = '"'

// Characters that a JSON string must escape (RFC 8785 §3.2.2.2), and surrogates, which may be lone.
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON escapes control characters.
const NEEDS_ESCAPE = /["\\\u0000-\u001f\ud800-\udfff]/

// Below this length a loop over code units is faster than a regular expression.
const SHORT = 24

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

/** Whether `text` needs no escape. */
function isPlain(text: string): boolean {
  const length = text.length
  if (length >= SHORT) return !NEEDS_ESCAPE.test(text)
  for (let i = 0; i < length; i++) {
    const unit = text.charCodeAt(i)
    if (unit < 0x20 || unit === 0x22 || unit === 0x5c || (unit & 0xf800) === 0xd800) return false
  }
  return true
}

/** `text` as a JSON string literal with the escapes of RFC 8785. */
function quoteJson(text: string): string {
  return isPlain(text) ? QUOTE + text + QUOTE : quoteSlow(text)
}

function quoteSlow(text: string): string {
  if (!text.isWellFormed()) throw new Violation('lone_surrogate')
  // For well-formed strings ECMAScript uses the escapes of RFC 8785.
  return JSON.stringify(text)
}

/** The JSON text of `value`, or undefined if JSON.stringify would omit the member. */
function write(value: unknown, key: string | number, depth: number): string | undefined {
  switch (typeof value) {
    case 'string':
      return quoteJson(value)
    case 'number':
      // ECMAScript's Number-to-String is the form of RFC 8785 §3.2.2.3; -0 becomes 0.
      if (!Number.isFinite(value)) throw new Violation('non_finite_number')
      return `${value}`
    case 'boolean':
      return value ? 'true' : 'false'
    case 'object':
      return value === null ? 'null' : writeObject(value, key, depth)
    case 'undefined':
      return undefined
    case 'function':
      throw new Violation('function_value')
    case 'symbol':
      throw new Violation('symbol_value')
    default:
      throw new Violation('bigint_value')
  }
}

function writeObject(value: object, key: string | number, depth: number): string | undefined {
  const { toJSON } = value as { toJSON?: unknown }
  if (typeof toJSON === 'function') {
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
  return `{${writeMembers(value as Record<string, unknown>, shape, 0, shape.keys.length, depth + 1)}}`
}

function writeArray(items: readonly unknown[], depth: number): string {
  let text = '['
  let i = 0
  try {
    for (; i < items.length; i++) {
      const item = items[i]
      // The most frequent cases are handled in this frame.
      const json = typeof item === 'string' ? quoteJson(item) : write(item, i, depth)
      if (json === undefined) throw new Violation(i in items ? 'undefined_value' : 'sparse_array')
      text += i === 0 ? json : `,${json}`
    }
  } catch (error) {
    throw error instanceof Violation ? error.within(items, i) : error
  }
  return `${text}]`
}

/**
 * The members of `object` at `[from, to)` of its shape, in RFC 8785 order (UTF-16 code units), without the braces.
 */
function writeMembers(
  object: Record<string, unknown>,
  { keys, labels, nextLabels, nextOpenings }: ObjectShape,
  from: number,
  to: number,
  depth: number,
): string {
  let text = ''
  let key = ''
  try {
    for (let i = from; i < to; i++) {
      key = keys[i] as string
      const value = object[key]
      // The most frequent case concatenates the fewest strings.
      if (typeof value === 'string' && text !== '' && isPlain(value)) {
        text += (nextOpenings[i] as string) + value + QUOTE
        continue
      }
      const json = value === null ? 'null' : write(value, key, depth)
      if (json !== undefined) text += (text === '' ? labels[i] : nextLabels[i]) + json
    }
  } catch (error) {
    throw error instanceof Violation ? error.within(object, key) : error
  }
  return text
}

function publicError(error: unknown): unknown {
  return error instanceof Violation ? new CanonicalJsonError(error.code, error.segments.reverse()) : error
}

/**
 * The canonical JSON text of `value` (RFC 8785). As with JSON.stringify, `toJSON` is called and undefined members are
 * omitted.
 *
 * @throws {CanonicalJsonError} for a value without an exact JSON form; its `path` locates it.
 */
export function canonicalize(value: unknown): string {
  try {
    const text = write(value, '', 0)
    if (text === undefined) throw new Violation('undefined_value')
    return text
  } catch (error) {
    throw publicError(error)
  }
}

/** The canonical text of an object, split at the position of a further member. */
export interface SplitJson {
  /** From `{` to the last member before the position, without a trailing comma. */
  readonly head: string
  /** From the first member after the position to `}`, without a leading comma. */
  readonly tail: string
}

/** A member that the object does not have, as text. */
export interface WrittenMember {
  readonly name: string
  /** Its canonical text, `"name":value`. */
  readonly text: string
}

/**
 * Canonicalizes `object` once, split at the position of the member `name`, so that the text without that member (for
 * signing) and with it (for storage) come from one traversal. `more` are further members before it, in canonical order:
 * they are cheaper as text than a copy of the object that has them.
 *
 * @throws {CanonicalJsonError} as `canonicalize`, and when `object` has one of the named members.
 */
export function canonicalizeAround(
  object: object,
  name: string,
  more: readonly WrittenMember[] = [],
): SplitJson {
  try {
    const members = object as Record<string, unknown>
    const shape = sortedShape(object, quoteJson)
    let head = ''
    let from = 0
    for (const member of more) {
      const to = placeOf(shape, member.name)
      if (shape.keys[to] === member.name) throw new Violation('reserved_member').within(object, member.name)
      head = joined(joined(head, writeMembers(members, shape, from, to, 1)), member.text)
      from = to
    }
    const cut = placeOf(shape, name)
    if (shape.keys[cut] === name) throw new Violation('reserved_member').within(object, name)
    head = joined(head, writeMembers(members, shape, from, cut, 1))
    return { head: `{${head}`, tail: `${writeMembers(members, shape, cut, shape.keys.length, 1)}}` }
  } catch (error) {
    throw publicError(error)
  }
}

function joined(left: string, right: string): string {
  return left === '' || right === '' ? left + right : `${left},${right}`
}

/** The text of the object without the member. */
export function joinCut(cut: SplitJson): string {
  const comma = cut.head.length > 1 && cut.tail.length > 1 ? ',' : ''
  return cut.head + comma + cut.tail
}
