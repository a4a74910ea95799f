// The line of a policy with a caret below the place of a mistake, for a terminal.
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
