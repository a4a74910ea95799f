// The ways in which a text may be read as a path before it is opened. All of them must be allowed.
import { trimmed } from '../content/text.js'
import type { Effort } from '../content/walk.js'
import { PathError } from './normalize.js'

/** In UTF-16 units: the longest path that Windows opens; Linux opens 4096 bytes. */
export const MAX_PATH = 32_767

/** How often what opens a path may decode it before. */
const MAX_DECODINGS = 2

/**
 * The text itself, trimmed, percent-decoded once and twice, and each with compatibility characters (full-width dots
 * and slashes) folded, without repetitions.
 *
 * @throws {PathError} for text that cannot be read, or that would need more readings than these
 */
export function readingsOf(text: string, effort: Effort): Set<string> {
  if (text.length > MAX_PATH) throw new PathError('is too long for a path')
  const readings = new Set<string>()
  addDecoded(text, readings, effort)
  const inner = trimmed(text, effort)
  if (inner !== text) addDecoded(inner, readings, effort)
  return readings
}

const ASCII = /^[\0-\x7f]*$/

/** Normalising a longer run costs the square of its length (UAX #15, "Stream-Safe Text Format"). */
const MAX_MARKS = 30

function pilesUpMarks(text: string): boolean {
  return text.match(/\p{M}+/gu)?.some((run) => run.length > MAX_MARKS) ?? false
}

function addDecoded(text: string, readings: Set<string>, effort: Effort): void {
  let level = text
  for (let decodings = 0; ; decodings++) {
    effort.steps += level.length
    readings.add(level)
    if (!ASCII.test(level)) {
      if (pilesUpMarks(level)) throw new PathError('piles up combining marks')
      readings.add(level.normalize('NFKC'))
    }
    const next = decoded(level)
    if (next === level) return
    if (decodings === MAX_DECODINGS) throw new PathError('is percent-encoded more than twice')
    level = next
  }
}

/** With each escape in its place. Bytes that are not UTF-8 are read in too many ways, overlong forms among them. */
export function decoded(text: string): string {
  if (!text.includes('%')) return text
  if (/%u[0-9A-Fa-f]{4}/i.test(text)) throw new PathError('holds an escape that readers disagree on')
  try {
    return text.replace(/(?:%[0-9A-Fa-f]{2})+/g, decodeURIComponent)
  } catch (cause) {
    throw new PathError('holds escapes that are not UTF-8', { cause })
  }
}
