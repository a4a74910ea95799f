// Text as URL and path parsers read it: trimmed, without tabs and line breaks, percent-decoded.
import type { ScanCounter } from './strings.js'

/** The start of a text. */
export interface Prefix {
  readonly text: string
  readonly isTruncated: boolean
}

/**
 * The first `length` characters after trimming and removal of tabs and line breaks (WHATWG URL, "basic URL parser",
 * steps 1 to 3). White space outside ASCII is trimmed too, because many programs trim it before they parse.
 */
export function prefixOf(text: string, length: number, counter: ScanCounter): Prefix {
  const { start, end } = trimmedRange(text)
  let prefix = ''
  let at = start
  while (at < end && prefix.length <= length) {
    prefix += text.slice(at, Math.min(end, at + length + 1)).replace(TABS_AND_LINE_BREAKS, '')
    at += length + 1
  }
  counter.characters += start + (text.length - end) + Math.min(end, at) - start
  return { text: prefix.slice(0, length), isTruncated: prefix.length > length || at < end }
}

/** The text without surrounding white space and control characters. */
export function trimmed(text: string, counter: ScanCounter): string {
  const { start, end } = trimmedRange(text)
  counter.characters += start + (text.length - end)
  return text.slice(start, end)
}

const TABS_AND_LINE_BREAKS = /[\t\n\r]/g

function trimmedRange(text: string): { start: number; end: number } {
  let start = 0
  let end = text.length
  while (start < end && isBlank(text.charCodeAt(start))) start++
  while (end > start && isBlank(text.charCodeAt(end - 1))) end--
  return { start, end }
}

/** White space, control characters and zero-width characters. */
function isBlank(unit: number): boolean {
  if (unit <= 0x20) return true
  if (unit < 0x7f) return false
  return BLANK.test(String.fromCharCode(unit))
}

const BLANK = /[\s\x7f-\x9f\u200b-\u200f\u2060]/

/** Decodes percent-escapes of ASCII characters and keeps all others. */
export function decodeAscii(text: string, counter: ScanCounter): string {
  counter.characters += text.length
  return text.replace(/%[0-7][0-9A-Fa-f]/g, (escaped) =>
    String.fromCharCode(Number.parseInt(escaped.slice(1), 16)),
  )
}

const SCHEME = /[A-Za-z][A-Za-z0-9+.-]*(?=:)/y

/** The URL scheme that starts at `from`, in lower case; undefined without one. */
export function schemeAt(text: string, from: number): string | undefined {
  SCHEME.lastIndex = from
  return SCHEME.exec(text)?.[0].toLowerCase()
}
