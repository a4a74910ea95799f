// The paths that programs may derive from a text before they open it. The allowlist must allow all of them.
import { decodeEscapes, hasPiledUpMarks } from '@svc/core/match'
import type { ScanCounter } from '../content/strings.js'
import { trimmed } from '../content/text.js'
import { PathError } from './normalize.js'

/** In UTF-16 units: the longest path that Windows opens; Linux opens 4096 bytes. */
export const MAX_PATH = 32_767

/** Programs may decode a path this often before they open it. */
const MAX_DECODINGS = 2

/**
 * The text as it is, trimmed, and percent-decoded once and twice; each also with compatibility characters, such as
 * full-width dots and slashes, folded.
 *
 * @throws {EscapeError} for text that cannot be decoded
 * @throws {PathError} for text that is encoded more than twice
 */
export function interpretationsOf(text: string, counter: ScanCounter): Set<string> {
  if (text.length > MAX_PATH) throw new PathError('is too long for a path')
  const found = new Set<string>()
  addDecoded(text, found, counter)
  const inner = trimmed(text, counter)
  if (inner !== text) addDecoded(inner, found, counter)
  return found
}

const ASCII = /^[\0-\x7f]*$/

function addDecoded(text: string, found: Set<string>, counter: ScanCounter): void {
  let level = text
  for (let decodings = 0; ; decodings++) {
    counter.characters += level.length
    found.add(level)
    if (!ASCII.test(level)) {
      // Normalizing them, which the rule does for each reading, costs the square of their number.
      if (hasPiledUpMarks(level)) throw new PathError('has too many combining marks in a row')
      found.add(level.normalize('NFKC'))
    }
    const next = decodeEscapes(level)
    if (next === level) return
    if (decodings === MAX_DECODINGS) throw new PathError('is percent-encoded more than twice')
    level = next
  }
}
