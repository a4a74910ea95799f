// Runs of letters and digits that may be encoded bytes: base64 and hex.

/** What a run says, and its bounds in the text. */
export interface DecodedRun {
  readonly text: string
  readonly start: number
  readonly end: number
}

export const MAY_BE_BASE64 = 1
export const MAY_BE_HEX = 2
export const MAY_BE_SPACED = 4
export const HAS_OTHERS = 8

const ALPHANUMERIC = 1
const BASE64_UNIT = 4
const HEX_UNIT = 8
/** What can stand between two bytes in hex, between two lines of base64, and between single letters. */
const HEX_SEPARATOR = 16
const SPACE_BETWEEN = 32
const kinds = new Uint8Array(0x80)
for (const [characters, kind] of [
  ['abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ', ALPHANUMERIC | BASE64_UNIT],
  ['0123456789', ALPHANUMERIC | BASE64_UNIT],
  ['+/_-', BASE64_UNIT],
  ['0123456789abcdefABCDEF', HEX_UNIT],
  [' ,:;|-\n\r\t', HEX_SEPARATOR],
  [' ._*,|\n-', SPACE_BETWEEN],
] as const)
  for (const character of characters) {
    const unit = character.charCodeAt(0)
    kinds[unit] = (kinds[unit] ?? 0) | kind
  }

function kindOf(unit: number): number {
  return unit < 0x80 ? (kinds[unit] ?? 0) : 0
}

/** What the text may have, by its runs of letters and digits and what separates them: it costs a fraction of the searches. */
export function formsIn(text: string): number {
  const { length } = text
  let forms = 0
  let base64 = 0
  let hex = 0
  let singles = 0
  let groups = 0
  let group = 0
  for (let at = 0; at < length; ) {
    const separators = at
    for (; at < length; at++) {
      const unit = text.charCodeAt(at)
      const kind = kindOf(unit)
      if ((kind & ALPHANUMERIC) !== 0) break
      if (unit >= 0x80) forms |= HAS_OTHERS
      // A short line goes on in the next one.
      else if (unit === 0x0a) forms |= MAY_BE_BASE64
      if ((kind & BASE64_UNIT) !== 0) base64++
      else {
        groups = unit === 0x20 && isGroup(base64) && base64 === group ? groups + 1 : 0
        if (groups > 1) forms |= MAY_BE_BASE64
        group = base64
        base64 = 0
      }
      if ((kind & HEX_SEPARATOR) === 0) hex = 0
      if ((kind & SPACE_BETWEEN) === 0) singles = 0
    }
    if (at - separators > 3) hex = singles = 0
    const start = at
    for (; at < length; at++) {
      const unit = text.charCodeAt(at)
      const kind = kindOf(unit)
      if ((kind & ALPHANUMERIC) === 0) break
      // The sign of the prefix `0x` counts.
      if ((kind & HEX_UNIT) === 0 && unit !== 0x78) hex = 0
      else if (++hex >= 16) forms |= MAY_BE_HEX
    }
    base64 += at - start
    if (base64 >= MIN_BASE64) forms |= MAY_BE_BASE64
    singles = at - start === 1 ? singles + 1 : 0
    if (singles > 5) forms |= MAY_BE_SPACED
  }
  return forms
}

/** Fewer letters say nothing, alone or as a line. */
const MIN_BASE64 = 16
const MIN_LINE = 4
/** White space at the end of a line and at the beginning of the next one. */
const MAX_INDENT = 8

/** Runs of the alphabet of base64; lines (RFC 2045 §6.8) and groups with a space between them are one text. */
export function base64Runs(text: string): DecodedRun[] {
  const runs: DecodedRun[] = []
  for (let at = 0; at < text.length; at++) {
    if (!isBase64(text.charCodeAt(at))) continue
    const start = at
    let end = endOfRun(text, at)
    at = end
    if (end - start < MIN_LINE) continue
    const joined = nextLine(text, end) < 0 ? endOfGroups(text, start, end) : endOfLines(text, end)
    if (lettersIn(text, start, joined) < MIN_BASE64) continue
    end = at = joined
    const inner = fromBase64(text, start, end)
    if (inner !== undefined) runs.push({ text: inner, start, end })
  }
  return runs
}

/** The end of the last line with enough letters. */
function endOfLines(text: string, from: number): number {
  let end = from
  for (let next = nextLine(text, end); next >= 0; next = nextLine(text, end)) {
    const lineEnd = endOfRun(text, next)
    if (lineEnd - next < MIN_LINE) break
    end = lineEnd
  }
  return end
}

/** The end of the last group: all have the size of the first, but for the last one. A group before a line break begins lines. */
function endOfGroups(text: string, start: number, from: number): number {
  const size = from - start
  let end = from
  while (isGroup(size) && text.charCodeAt(end) === 0x20) {
    const groupEnd = endOfRun(text, end + 1)
    const length = groupEnd - end - 1
    // A word before groups is not one of them.
    const isLast = length < size && (end > from || size === 4 || size === 8)
    if (length === 0 || !(length === size || isLast) || endOfLines(text, groupEnd) > groupEnd) break
    end = groupEnd
    if (isLast) break
  }
  return end
}

/** Without the white space between them; so few are counted that a long text is not read for it. */
function lettersIn(text: string, start: number, end: number): number {
  let letters = 0
  for (let at = start; at < end && letters < MIN_BASE64; at++) if (isBase64(text.charCodeAt(at))) letters++
  return letters
}

/** Base64 in groups has the same number of letters in each. */
function isGroup(letters: number): boolean {
  return letters >= MIN_LINE
}

function isBase64(unit: number): boolean {
  return (kindOf(unit) & BASE64_UNIT) !== 0
}

function endOfRun(text: string, from: number): number {
  let at = from
  while (isBase64(text.charCodeAt(at))) at++
  return at
}

/** Where the next line has its first character; -1 if other characters come before. */
function nextLine(text: string, from: number): number {
  const end = afterIndent(text, from)
  const next = text.charCodeAt(end) === 0x0d ? end + 1 : end
  return text.charCodeAt(next) === 0x0a ? afterIndent(text, next + 1) : -1
}

function afterIndent(text: string, from: number): number {
  let at = from
  while (at < from + MAX_INDENT && (text.charCodeAt(at) === 0x20 || text.charCodeAt(at) === 0x09)) at++
  return at
}

/** Eight bytes or more, with up to two separators behind each. */
export function hexRuns(text: string): DecodedRun[] {
  const runs: DecodedRun[] = []
  for (let at = 0; at < text.length; at++) {
    if (!isHex(text.charCodeAt(at))) continue
    const start = at
    while (isHex(text.charCodeAt(at + 1))) at++
    let end = start
    let bytes = 0
    for (let next = afterByte(text, start); next >= 0; next = afterByte(text, end)) {
      bytes++
      end = next
    }
    if (bytes < 8) continue
    at = Math.max(at, end - 1)
    const inner = fromHex(text, start, end)
    if (inner !== undefined) runs.push({ text: inner, start, end })
  }
  return runs
}

function isHex(unit: number): boolean {
  return (kindOf(unit) & HEX_UNIT) !== 0
}

/** The end of two digits and what separates them from the next ones; -1 if there are none. */
function afterByte(text: string, from: number): number {
  let at = text.startsWith('0x', from) ? from + 2 : from
  if (!isHex(text.charCodeAt(at)) || !isHex(text.charCodeAt(at + 1))) return -1
  at += 2
  for (let count = 0; count < 2 && (kindOf(text.charCodeAt(at)) & HEX_SEPARATOR) !== 0; count++) at++
  return at
}

/** The bytes of one run. */
let bytes = Buffer.alloc(32 * 1024)

function fromBase64(text: string, start: number, end: number): string | undefined {
  let letters = 0
  let hasCapital = false
  let hasSmall = false
  for (let at = start; at < end; at++) {
    const unit = text.charCodeAt(at)
    if (unit > 0x20) letters++
    if (unit >= 0x41 && unit <= 0x5a) hasCapital = true
    else if (unit >= 0x61) hasSmall = true
  }
  // Words and paths have no digits, capitals and small letters at once; what is encoded has two of them in 16 characters.
  if (letters < MIN_BASE64 || !hasCapital || !hasSmall) return undefined
  return readableAt(text.slice(start, end), 'base64', 4)
}

function fromHex(text: string, start: number, end: number): string | undefined {
  return readableAt(text.slice(start, end).replace(/0x|[ ,:;|\r\n\t-]+/gi, ''), 'hex', 2)
}

/** Shorter text among bytes that are none is there by chance. */
const MIN_READABLE = 12

/**
 * Encoded text can stand behind other characters of the alphabet, such as those of a path: returns the whole as text, else the
 * parts of it that are text, read from each of the first places. Undefined if there are none. UTF-16 is read as its low bytes.
 */
function readableAt(run: string, encoding: 'base64' | 'hex', places: number): string | undefined {
  if (run.length > bytes.length) bytes = Buffer.alloc(run.length)
  let parts = ''
  for (let from = 0; from < places; from++) {
    const length = withoutZeros(bytes.write(from === 0 ? run : run.slice(from), encoding))
    let start = 0
    for (let at = 0; at <= length; ) {
      const next = at < length ? afterCharacter(at, length) : -1
      if (next >= 0) {
        at = next
        continue
      }
      if (start === 0 && at === length) return length === 0 ? undefined : bytes.toString('utf8', 0, length)
      if (at - start >= MIN_READABLE) {
        const part = bytes.toString('utf8', start, at)
        if (part.length >= MIN_READABLE) parts += parts === '' ? part : `\n${part}`
      }
      start = ++at
    }
  }
  return parts === '' ? undefined : parts
}

function withoutZeros(length: number): number {
  let count = 0
  for (let at = 0; at < length; at++) {
    const byte = bytes[at] ?? 0
    if (byte !== 0) bytes[count++] = byte
  }
  return count
}

/** The end of the character of UTF-8 at a place; -1 for a control character other than white space and escape, and other bytes. */
function afterCharacter(at: number, length: number): number {
  const byte = bytes[at] ?? 0
  if (byte < 0x80)
    return byte < 0x20
      ? (byte >= 9 && byte <= 13) || byte === 0x1b
        ? at + 1
        : -1
      : byte === 0x7f
        ? -1
        : at + 1
  const size =
    byte >= 0xc2 && byte < 0xe0 ? 2 : byte >= 0xe0 && byte < 0xf0 ? 3 : byte >= 0xf0 && byte < 0xf5 ? 4 : 0
  if (size === 0 || at + size > length) return -1
  for (let more = at + 1; more < at + size; more++) if (((bytes[more] ?? 0) & 0xc0) !== 0x80) return -1
  const second = bytes[at + 1] ?? 0
  // Forms that are too long, halves of pairs, characters beyond Unicode, and control characters.
  const isWrong =
    (byte === 0xe0 && second < 0xa0) ||
    (byte === 0xed && second >= 0xa0) ||
    (byte === 0xf0 && second < 0x90) ||
    (byte === 0xf4 && second >= 0x90) ||
    (byte === 0xc2 && second < 0xa0)
  return isWrong ? -1 : at + size
}
