// Text as those who read URLs and paths take it: trimmed, without tabs and line ends, percent-decoded.
import type { Effort } from './walk.js'

/** The beginning of a text, and whether it goes on. */
export interface Head {
  readonly text: string
  readonly isCut: boolean
}

/**
 * The first `length` characters without what surrounds them and without tabs and line ends (WHATWG URL, "basic URL
 * parser", steps 1 to 3). White space beyond ASCII is trimmed too: many a reader does so before it parses.
 */
export function headOf(text: string, length: number, effort: Effort): Head {
  const { from, end } = trimmedRange(text)
  let kept = ''
  let at = from
  while (at < end && kept.length <= length) {
    kept += text.slice(at, Math.min(end, at + length + 1)).replace(TABS_AND_LINE_ENDS, '')
    at += length + 1
  }
  effort.steps += from + (text.length - end) + Math.min(end, at) - from
  return { text: kept.slice(0, length), isCut: kept.length > length || at < end }
}

/** The text without what surrounds it. */
export function trimmed(text: string, effort: Effort): string {
  const { from, end } = trimmedRange(text)
  effort.steps += from + (text.length - end)
  return text.slice(from, end)
}

const TABS_AND_LINE_ENDS = /[\t\n\r]/g

function trimmedRange(text: string): { from: number; end: number } {
  let from = 0
  let end = text.length
  while (from < end && isBlank(text.charCodeAt(from))) from++
  while (end > from && isBlank(text.charCodeAt(end - 1))) end--
  return { from, end }
}

/** C0 controls, and what has no width or only width. */
function isBlank(unit: number): boolean {
  if (unit <= 0x20) return true
  if (unit < 0x7f) return false
  return BLANK.test(String.fromCharCode(unit))
}

const BLANK = /[\s\x7f-\x9f\u200b-\u200f\u2060]/

/** With each escape of an ASCII character in its place; others are left. */
export function decodeAscii(text: string, effort: Effort): string {
  effort.steps += text.length
  return text.replace(/%[0-7][0-9A-Fa-f]/g, (escaped) =>
    String.fromCharCode(Number.parseInt(escaped.slice(1), 16)),
  )
}
