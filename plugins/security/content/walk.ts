// One walk over the arguments for all rules on what they hold.
import type { JsonValue } from '@svc/core/json'
import { marksOf } from './key-flags.js'

/** Counts the characters that are looked at, each time they are: what hostile input may make a judgement cost. */
export interface Effort {
  steps: number
}

/**
 * Is shown a string, the marks of all keys that it stands under, and where it stands. The place is good during the
 * call only.
 */
export type Visit = (text: string, marks: number, place: readonly (string | number)[]) => void

/**
 * Shows every string: values, and the names of members, which are strings too but stand under no key. The depth is
 * bounded by what was parsed and hashed before (512).
 */
export function eachString(args: JsonValue, visit: Visit): void {
  descend(args, 0, [], visit)
}

function descend(value: JsonValue, marks: number, place: (string | number)[], visit: Visit): void {
  if (typeof value === 'string') {
    visit(value, marks, place)
  } else if (Array.isArray(value)) {
    const last = place.push(0) - 1
    for (const [i, item] of value.entries()) {
      place[last] = i
      descend(item, marks, place, visit)
    }
    place.pop()
  } else if (typeof value === 'object' && value !== null) {
    const last = place.push('') - 1
    for (const [key, member] of Object.entries(value)) {
      place[last] = key
      visit(key, 0, place)
      descend(member, marks | marksOf(key), place, visit)
    }
    place.pop()
  }
}
