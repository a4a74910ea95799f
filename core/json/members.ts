// Finds the member of an object that a rule names, and members that programs read differently. Some decoders match
// names without regard to case, some compose or fold them first, and of two members with one name some take the first.
import { foldName } from '../match/fold.js'
import type { JsonObject, JsonValue } from './value.js'

/** The names in `object` that a program could take for `name`: they have the same fold. */
export function membersLike(object: JsonObject, name: string): string[] {
  const wanted = foldName(name)
  return Object.keys(object).filter((key) => key === name || foldName(key) === wanted)
}

/** Whether an object at some depth has two members that a program could take for one. */
export function hasMembersAlike(value: JsonValue): boolean {
  if (typeof value !== 'object' || value === null) return false
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

const QUOTE = 0x22
const COLON = 0x3a
const BACKSLASH = 0x5c

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

/** The index of the closing quote. */
function endOfString(text: string, from: number): number {
  let at = from
  while (at < text.length) {
    const unit = text.charCodeAt(at)
    if (unit === QUOTE) break
    at += unit === BACKSLASH ? 2 : 1
  }
  return at
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
