// Finds the member of an object that a rule names. Programs differ in which names they take for it: some decoders match
// without regard to case, some compose or fold names first.
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
