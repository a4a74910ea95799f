// Canonical JSON (RFC 8785): the one serialisation that is signed, hashed and stored. Every gateway
// call passes here at least twice, hence a single traversal that allocates nothing but the answer.

import { type CanonicalJsonCode, CanonicalJsonError } from './errors.js'
import { sortedShape } from './shape.js'

const MAX_DEPTH = 512

// What a JSON string must escape (RFC 8785 §3.2.2.2), and surrogates, which may be lone.
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what JSON escapes.
const NEEDS_CARE = /["\\\u0000-\u001f\ud800-\udfff]/

// Below this length a loop over code units beats entering the regular expression engine.
const SHORT = 24

/** Carries the reason up through the frames, each of which adds its segment of the path. */
class Fault {
  segments: (string | number)[] = []

  constructor(
    public code: CanonicalJsonCode,
    readonly culprit?: object,
  ) {}

  /** Called by the frame of `container` while unwinding. */
  within(container: object, segment: string | number): this {
    this.segments.push(segment)
    // Depth is the only guard on the way down; on the way up an ancestor that is the culprit
    // itself shows that the depth was a cycle. The path then ends at its outermost occurrence.
    if (container === this.culprit) {
      this.code = 'cycle'
      this.segments.length = 0
    }
    return this
  }
}

/** Whether the string literal of `text` is `text` between quotes. */
function isPlain(text: string): boolean {
  const length = text.length
  if (length >= SHORT) return !NEEDS_CARE.test(text)
  for (let i = 0; i < length; i++) {
    const unit = text.charCodeAt(i)
    if (unit < 0x20 || unit === 0x22 || unit === 0x5c || (unit & 0xf800) === 0xd800) return false
  }
  return true
}

/** `text` as a JSON string literal with the escapes RFC 8785 prescribes. */
function quoteJson(text: string): string {
  return isPlain(text) ? `"${text}"` : quoteSlow(text)
}

function quoteSlow(text: string): string {
  if (!text.isWellFormed()) throw new Fault('lone_surrogate')
  // ECMAScript's escapes are RFC 8785's for every well-formed string.
  return JSON.stringify(text)
}

/** The JSON text of `value`, or undefined where JSON.stringify would leave the member out. */
function write(value: unknown, key: string | number, depth: number): string | undefined {
  switch (typeof value) {
    case 'string':
      return quoteJson(value)
    case 'number':
      // ECMAScript's Number-to-String is the form RFC 8785 §3.2.2.3 asks for; -0 becomes 0.
      if (!Number.isFinite(value)) throw new Fault('non_finite_number')
      return `${value}`
    case 'boolean':
      return value ? 'true' : 'false'
    case 'object':
      return value === null ? 'null' : writeObject(value, key, depth)
    case 'undefined':
      return undefined
    case 'function':
      throw new Fault('function_value')
    case 'symbol':
      throw new Fault('symbol_value')
    default:
      throw new Fault('bigint_value')
  }
}

function writeObject(value: object, key: string | number, depth: number): string | undefined {
  if ('toJSON' in value && typeof value.toJSON === 'function') {
    const replacement: unknown = value.toJSON(`${key}`)
    if (typeof replacement !== 'object' || replacement === null) return write(replacement, key, depth)
    value = replacement
  }
  if (depth >= MAX_DEPTH) throw new Fault('too_deep', value)
  if (Array.isArray(value)) return writeArray(value, depth + 1)
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) {
    if (value instanceof Number || value instanceof String || value instanceof Boolean) {
      return write(value.valueOf(), key, depth)
    }
    if (value instanceof Map || value instanceof Set) throw new Fault('unsupported_object')
  }
  return `{${writeMembers(value as Record<string, unknown>, depth + 1, undefined)}}`
}

function writeArray(items: readonly unknown[], depth: number): string {
  let text = '['
  let i = 0
  try {
    for (; i < items.length; i++) {
      const item = items[i]
      // The two cheapest and commonest cases stay in this frame.
      const json = typeof item === 'string' ? quoteJson(item) : write(item, i, depth)
      if (json === undefined) throw new Fault(i in items ? 'undefined_value' : 'sparse_array')
      text += i === 0 ? json : `,${json}`
    }
  } catch (error) {
    throw error instanceof Fault ? error.within(items, i) : error
  }
  return `${text}]`
}

/** Where to cut an object's text, and the text before that, once it is written. */
interface Cut {
  /** Of the member that would stand there, and must not. */
  readonly name: string
  head: string | undefined
}

/**
 * The members of `object` in RFC 8785 order (UTF-16 code units), without the braces. With `cut`, only
 * those after the cut; those before are left in it.
 */
function writeMembers(object: Record<string, unknown>, depth: number, cut: Cut | undefined): string {
  let text = ''
  let waiting = cut
  let key = ''
  const { keys, labels, nextLabels, nextOpenings } = sortedShape(object, quoteJson)
  try {
    for (let i = 0; i < keys.length; i++) {
      key = keys[i] as string
      if (waiting !== undefined && key >= waiting.name) {
        if (key === waiting.name) throw new Fault('reserved_member')
        waiting.head = text
        waiting = undefined
        text = ''
      }
      const value = object[key]
      // The commonest case puts the fewest pieces together.
      if (typeof value === 'string' && text !== '' && isPlain(value)) {
        text += `${nextOpenings[i]}${value}"`
        continue
      }
      const json = write(value, key, depth)
      if (json !== undefined) text += (text === '' ? labels[i] : nextLabels[i]) + json
    }
  } catch (error) {
    throw error instanceof Fault ? error.within(object, key) : error
  }
  if (waiting === undefined) return text
  waiting.head = text
  return ''
}

function explain(error: unknown): unknown {
  return error instanceof Fault ? new CanonicalJsonError(error.code, error.segments.reverse()) : error
}

/**
 * The canonical JSON text of `value` (RFC 8785). `toJSON` is honoured and members that are undefined
 * are left out, as JSON.stringify does.
 *
 * @throws {CanonicalJsonError} for what JSON cannot carry exactly; its `path` says where.
 */
export function canonicalize(value: unknown): string {
  try {
    const text = write(value, '', 0)
    if (text === undefined) throw new Fault('undefined_value')
    return text
  } catch (error) {
    throw explain(error)
  }
}

/** The canonical text of an object, cut where one more member would stand. */
export interface CutObject {
  /** From `{` up to the last member before the place, without a comma at its end. */
  readonly head: string
  /** From the first member after the place up to `}`, without a comma at its start. */
  readonly tail: string
}

/**
 * Canonicalizes `object` once, cut at the place of the member `name`, so that the text without that
 * member (what is signed) and with it (what is stored) come from one traversal.
 *
 * @throws {CanonicalJsonError} as `canonicalize`, and when `object` has a member `name`.
 */
export function canonicalizeAround(object: object, name: string): CutObject {
  try {
    const cut: Cut = { name, head: undefined }
    const tail = writeMembers(object as Record<string, unknown>, 1, cut)
    return { head: `{${cut.head}`, tail: `${tail}}` }
  } catch (error) {
    throw explain(error)
  }
}

/** `canonicalize` of the object that `cut` was made of. */
export function joinCut(cut: CutObject): string {
  const comma = cut.head.length > 1 && cut.tail.length > 1 ? ',' : ''
  return cut.head + comma + cut.tail
}

/** `canonicalize` of that object with the cut member; `member` is its canonical text, `"name":value`. */
export function joinCutWith(cut: CutObject, member: string): string {
  const before = cut.head.length > 1 ? ',' : ''
  const after = cut.tail.length > 1 ? ',' : ''
  return cut.head + before + member + after + cut.tail
}
