// Visits all strings of a call's arguments, once for all rules.
import type { JsonValue } from '@svc/core/json'
import { keyFlags } from './key-flags.js'

/** Counts scanned characters, repeated scans included, so that tests can limit the cost of hostile arguments. */
export interface ScanCounter {
  characters: number
}

/** `flags` are those of all keys above the string. `path` is reused: it is valid only during the call. */
type StringVisitor = (text: string, flags: number, path: readonly (string | number)[]) => void

/**
 * Visits values and member names; a member name has no flags. The depth is limited by the request parser (512).
 */
export function forEachString(args: JsonValue, visit: StringVisitor): void {
  walk(args, 0, [], visit)
}

function walk(value: JsonValue, flags: number, path: (string | number)[], visit: StringVisitor): void {
  if (typeof value === 'string') {
    visit(value, flags, path)
  } else if (Array.isArray(value)) {
    const last = path.push(0) - 1
    for (const [i, item] of value.entries()) {
      path[last] = i
      walk(item, flags, path, visit)
    }
    path.pop()
  } else if (typeof value === 'object' && value !== null) {
    const last = path.push('') - 1
    for (const [key, member] of Object.entries(value)) {
      path[last] = key
      visit(key, 0, path)
      walk(member, flags | keyFlags(key), path, visit)
    }
    path.pop()
  }
}
