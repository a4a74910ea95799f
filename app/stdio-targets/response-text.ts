// Puts the id of the client into a response of a process without touching the rest of its text: numbers that a double
// cannot represent, and the order and spelling of everything, stay as the server wrote them.

const QUOTE = 0x22
const BACKSLASH = 0x5c
const OPEN = new Set([0x7b, 0x5b])
const CLOSE = new Set([0x7d, 0x5d])
const COMMA = 0x2c
const blank = /\s*/y
const scalar = /"(?:[^"\\]|\\.)*"|[\w.+-]+/y

/** `text` is a valid JSON object. Undefined if it does not have exactly one member `id`. */
export function withId(text: string, id: unknown): string | undefined {
  const found: { start: number; end: number }[] = []
  let depth = 0
  let isName = false
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit === QUOTE) {
      const end = endOfString(text, at)
      if (isName && depth === 1 && JSON.parse(text.slice(at, end)) === 'id') found.push(valueAfter(text, end))
      isName = false
      at = end - 1
    } else if (OPEN.has(unit)) {
      depth++
      isName = true
    } else if (CLOSE.has(unit)) depth--
    else if (unit === COMMA) isName = true
  }
  const [only, ...others] = found
  if (only === undefined || others.length > 0) return undefined
  return `${text.slice(0, only.start)}${JSON.stringify(id)}${text.slice(only.end)}`
}

/** The index after the closing quote. */
function endOfString(text: string, start: number): number {
  let at = start + 1
  while (at < text.length && text.charCodeAt(at) !== QUOTE) at += text.charCodeAt(at) === BACKSLASH ? 2 : 1
  return at + 1
}

/** The start and end of the value of the member whose name ends at `end`; the value is not an array or object. */
function valueAfter(text: string, end: number): { start: number; end: number } {
  const start = skip(blank, text, skip(blank, text, end) + 1)
  return { start, end: skip(scalar, text, start) }
}

function skip(pattern: RegExp, text: string, from: number): number {
  pattern.lastIndex = from
  return from + (pattern.exec(text)?.[0].length ?? 0)
}
