// Finds the member of an object that a rule names, and members that programs read differently. Some decoders match
// names without regard to case, some compose or fold them first, and of two members with one name some take the first.
import { foldName } from '../match/fold.js'
import { parseExactObject } from './parse-object.js'
import { BRACE, BRACKET } from './structure.js'
import { BACKSLASH, endOfString, JsonNumber, QUOTE } from './text.js'
import type { JsonObject, JsonValue } from './value.js'

/** The names in `object` that a program could take for `name`: they have the same fold. */
export function membersLike(object: JsonObject, name: string): string[] {
  const wanted = foldName(name)
  return Object.keys(object).filter((key) => key === name || foldName(key) === wanted)
}

/** Whether an object at some depth has two members that a program could take for one. */
export function hasMembersAlike(value: JsonValue): boolean {
  if (typeof value !== 'object' || value === null || value instanceof JsonNumber) return false
  if (Array.isArray(value)) return value.some(hasMembersAlike)
  const names = Object.keys(value)
  return new Set(names.map(foldName)).size < names.length || Object.values(value).some(hasMembersAlike)
}

/**
 * Whether some object in `text`, which JSON.parse parsed to `value`, has two members of one name: parsers differ in
 * which they take. The number of members in the text is compared with that in the value.
 */
export function hasDuplicateMembers(text: string, value: unknown): boolean {
  return writtenMembers(text) !== keptMembers(value)
}

const COLON = 0x3a

/** The colons outside strings of valid JSON. */
function writtenMembers(text: string): number {
  let members = 0
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit === COLON) members++
    else if (unit === QUOTE) at = endOfString(text, at + 1)
  }
  return members
}

/** Without recursion, as the depth of a server's JSON is not limited. */
function keptMembers(value: unknown): number {
  let members = 0
  const open = [value]
  while (open.length > 0) {
    const next = open.pop()
    if (typeof next !== 'object' || next === null) continue
    const inner: unknown[] = Object.values(next)
    if (!Array.isArray(next)) members += inner.length
    for (const child of inner) if (typeof child === 'object' && child !== null) open.push(child)
  }
  return members
}

const COMMA = 0x2c
const CLOSING_BRACE = 0x7d
const CLOSING_BRACKET = 0x5d

/** Maximum length of a member, in bytes. */
const MAX_MEMBER = 2048

/**
 * The short members of the outermost object whose names are in `names`; of several members with one name, the last.
 * Reads only quotes, brackets and commas, so text that is not JSON may have such members too: a response to text that
 * `parse.ts` refuses, or that costs too much to parse, can name its request.
 */
export function outermostMembers(bytes: Uint8Array, names: readonly string[]): Record<string, unknown> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const quoted = names.map((name) => `"${name}"`)
  const found = new Map<string, Buffer>()
  let depth = 0
  // The offset of the member, and of its first quote.
  let start = 0
  let quote = 0
  for (let at = 0; at < buffer.length; at++) {
    const byte = buffer[at]
    if (byte === QUOTE) {
      if (quote < start) quote = at
      for (at++; at < buffer.length && buffer[at] !== QUOTE; at++) if (buffer[at] === BACKSLASH) at++
    } else if (byte === BRACE || byte === BRACKET) {
      if (++depth === 1) start = at + 1
    } else if (byte === COMMA || byte === CLOSING_BRACE || byte === CLOSING_BRACKET) {
      if (depth === 1) {
        const name = quoted.find((one) => isAt(buffer, quote, one))
        if (name !== undefined) found.set(name, buffer.subarray(start, at))
        start = at + 1
      }
      if (byte !== COMMA) depth--
    }
  }
  if (depth !== 0) return {}
  const short = [...found.values()].filter(({ byteLength }) => byteLength <= MAX_MEMBER)
  return parseExactObject(`{${short.map(String).join(',')}}`) ?? {}
}

function isAt(buffer: Buffer, from: number, text: string): boolean {
  for (let i = 0; i < text.length; i++) if (buffer[from + i] !== text.charCodeAt(i)) return false
  return true
}
