// Finds a character of a YAML text in the file, where it may be quoted, escaped, indented or folded.

/**
 * The index in `written`, a YAML scalar as the file has it, of the character at `index` of its value. The two are read side
 * by side: what is only in the file (quotes, indentation, escapes, the header of a block) is skipped.
 */
export function writtenIndex(written: string, value: string, index: number): number {
  let at = written.startsWith('"') || written.startsWith("'") ? 1 : blockStart(written)
  const isDouble = written.startsWith('"')
  for (let read = 0; read < Math.min(index, value.length); read++) {
    at = found(written, value.charAt(read), at)
    const isEscaped = (isDouble && written[at] === '\\') || (written.startsWith("'") && written[at] === "'")
    at += isEscaped ? escapedLength(written, at) : 1
  }
  return index >= value.length ? Math.min(at, written.length) : found(written, value.charAt(index), at)
}

const SPACE = /\s/
/** YAML 1.2 §5.7. */
const HEX_DIGITS: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 }

/** The text of a block scalar begins after its header. */
function blockStart(written: string): number {
  return /^[|>]/.test(written) ? written.indexOf('\n') + 1 : 0
}

/** The index at which the character is written, from `at` on: a folded line end stands for a space. */
function found(written: string, char: string, at: number): number {
  if (SPACE.test(char) || !SPACE.test(written.charAt(at))) return at
  let next = at
  while (next < written.length && SPACE.test(written.charAt(next))) next++
  return next
}

function escapedLength(written: string, at: number): number {
  return 2 + (written[at] === '\\' ? (HEX_DIGITS[written.charAt(at + 1)] ?? 0) : 0)
}
