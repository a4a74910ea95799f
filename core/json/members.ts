// Finds the member of an object that a rule names. Programs differ in which names they take for it: some decoders match
// without regard to case, some compose or fold names first.
import { normalized } from '../match/normalize.js'
import type { JsonObject, JsonValue } from './value.js'

/** Of these names, which have no spaces, only the case can differ. */
const PLAIN = /^[\x21-\x7e]*$/

/**
 * The names in `object` that a program could take for `name`: equal without regard to case, Unicode normal form,
 * characters that are not shown, and spaces around (NFKC_Casefold of Unicode Standard Annex #31, trimmed).
 */
export function membersLike(object: JsonObject, name: string): string[] {
  const wanted = folded(name)
  return Object.keys(object).filter((key) => key === name || folded(key) === wanted)
}

/** Whether an object at some depth has two members that a program could take for one. */
export function hasMembersAlike(value: JsonValue): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (Array.isArray(value)) return value.some(hasMembersAlike)
  const names = Object.keys(value)
  return new Set(names.map(folded)).size < names.length || Object.values(value).some(hasMembersAlike)
}

/** In lower, upper and lower case, since ẞ, ß and ss, and σ and ς, are one by all three; İ is i, with its dot or without. */
function folded(name: string): string {
  if (PLAIN.test(name)) return name.toLowerCase()
  return normalized(name.replace(/\p{Default_Ignorable_Code_Point}/gu, ''), 'NFKC')
    .toLowerCase()
    .toUpperCase()
    .toLowerCase()
    .normalize('NFKC')
    .replaceAll('i\u0307', 'i')
    .trim()
}
