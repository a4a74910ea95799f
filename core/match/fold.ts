// The one fold of names: names that any program treats as equal have the same fold. It serves rules that restrict, as a
// program that tells such names apart then has more rules applied to them, and never fewer.

import { normalized } from './normalize.js'

/** For such names, which most are, the fold changes only the case. */
const PLAIN = /^[\w-]*$/
const ASCII = /^[\0-\x7f]*$/
const INVISIBLE = /[\p{Default_Ignorable_Code_Point}\p{Cf}]/gu
const DOTTED_I = /i(\p{M}{0,30}?)\u0307/gu
const OUTER = /[\s.]/
/** Removing or composing characters can produce text that a further pass changes. */
const MAX_ROUNDS = 4

/**
 * The name without regard to case, compatibility forms such as full-width letters (NFKC), characters that are not shown
 * (zero-width spaces, byte order marks, soft hyphens), and spaces and dots at its ends.
 */
export function foldName(name: string): string {
  if (PLAIN.test(name)) return name.toLowerCase()
  if (ASCII.test(name)) return trimmed(name.toLowerCase())
  let folded = name
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const before = folded
    folded = foldOnce(before)
    if (folded === before) break
  }
  return folded
}

/**
 * The name in upper and then in lower case, since ς, ſ and others have no other fold; İ is i, with or without its dot.
 */
function foldOnce(name: string): string {
  const lower = normalized(name.replace(INVISIBLE, ''), 'NFKC').toUpperCase().toLowerCase()
  return trimmed(normalized(lower, 'NFKC').replaceAll('ς', 'σ').replace(DOTTED_I, 'i$1'))
}

/** A loop, as a regular expression for the end takes quadratic time for a run of spaces within the name. */
function trimmed(name: string): string {
  let start = 0
  let end = name.length
  while (start < end && OUTER.test(name.charAt(start))) start++
  while (end > start && OUTER.test(name.charAt(end - 1))) end--
  return name.slice(start, end)
}
