// The text of a policy around a mistake: the line with a caret below the place, for a terminal, and where a character of a
// value is written.
import { visibleInLine } from '../json/visible.js'

/** Line and column count from 1. */
interface Place {
  readonly line: number
  readonly column: number
}

const MAX_WIDTH = 80
const CONTEXT = 60

/** Shows values that may be secrets as asterisks. */
export function sourceExcerpt(text: string, { line, column }: Place): string {
  const source = (text.split('\n', line)[line - 1] ?? '').replace(/\r$/, '')
  const masked = withoutSecretTexts(source).replaceAll('\t', '\u2192')
  const from = column <= MAX_WIDTH ? 0 : column - CONTEXT
  const before = `${from > 0 ? '\u2026' : ''}${visibleInLine(masked.slice(from, column - 1))}`
  const rest = masked.slice(column - 1, from + MAX_WIDTH)
  const after = `${visibleInLine(rest)}${masked.length > from + MAX_WIDTH ? '\u2026' : ''}`
  const number = `  ${line}`
  return `${number} | ${before}${after}\n${' '.repeat(number.length)} | ${' '.repeat([...before].length)}^`
}

const secretNamed =
  /((?:token|secret|passw\w*|credential|key)s?["']?\s*:\s*["']?)(?!(?:env|file|exec):|\$\{)([^\s"'{}[\]]+)/gi
const userInfo = /(:\/\/)([^\s/@]+)(?=@)/g
const opaque = /(^|[\s"':])((?=[\w+/=-]*\d)(?=[\w+/=-]*[A-Za-z])[\w+/=-]{20,})(?=$|[\s"',}\]])/g

/** Keeps the length. A policy names its secrets by references, but a text that is not YAML is not checked for that. */
function withoutSecretTexts(line: string): string {
  return [secretNamed, userInfo, opaque].reduce(
    (text, pattern) =>
      text.replace(pattern, (_, start: string, secret: string) => start + '*'.repeat(secret.length)),
    line,
  )
}

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
