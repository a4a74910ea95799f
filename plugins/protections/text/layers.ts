// Texts within a text: what a model or a program gets when it decodes a part of it.
import { matchesOf } from '@svc/core/pii'

/** A decoded part, with the bounds of the part that it comes from in the outermost text. */
export interface Layer {
  readonly encoding: 'base64' | 'hex' | 'percent' | 'escapes' | 'spaced' | 'look-alikes' | 'marks'
  readonly text: string
  readonly start: number
  readonly end: number
}

/** Characters that can have another form, or are not shown. */
const OTHERS = /[^\0-\x7f]+/g
/** Escapes of URLs, of strings in programs, and of HTML. */
const ESCAPES =
  /%[0-9A-Fa-f]{2}|\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]{1,6}\}|[0-3][0-7]{2})|&(?:#\d{1,7}|#x[0-9A-Fa-f]{1,6}|lt|gt|amp|quot|apos|nbsp);/g
/**
 * Tags and sequences of a terminal within a word, and comments: a page or a terminal does not show them. What stands before
 * is looked at behind the first character, which few texts have.
 */
const MARKS =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these sequences begin with control characters.
  /(?:<(?<=\w\r?\n?<)[^<>\n]{1,64}>|\x1b(?<=\w\r?\n?\x1b)\[[0-9;]{0,32}[A-Za-z])(?:<[^<>\n]{1,64}>|\x1b\[[0-9;]{0,32}[A-Za-z]){0,15}(?=\r?\n?\w)|<!--[^<>]{0,128}-->/g
/** Characters before and behind a mark that are read without marks. */
const BESIDE_MARK = 256
/** Five or more single letters: `i g n o r e`, `i-g-n-o-r-e`. */
const SPACED = /(?<![A-Za-z])(?:[A-Za-z][ ._*-]{1,3}){5,}[A-Za-z](?![A-Za-z])/g

/** Encodings within encodings are followed this far. */
const MAX_DEPTH = 4
/** Decoded text in all, in UTF-16 code units, as a multiple of the given text. Each encoding shortens what it decodes. */
const MAX_GROWTH = 6

export interface DecodedText {
  readonly parts: readonly Layer[]
  /** False if there is more to decode than is decoded. */
  readonly isComplete: boolean
}

/** The decoded parts of a text, and theirs, with at most six times its length in all. */
export function decodedParts(text: string): DecodedText {
  if (text.length < MIN_RUN && !/[%\\&]/.test(text)) return { parts: [], isComplete: true }
  const parts = decoded(text)
  if (parts.length === 0) return { parts, isComplete: true }
  // Two encodings can be decoded in two orders.
  const known = new Set([text])
  let left = Math.max(text.length, 1024) * MAX_GROWTH
  const layers: Layer[] = []
  let outer: readonly Layer[] = parts
  for (let depth = 1; outer.length > 0; depth++) {
    const fresh: Layer[] = []
    for (const layer of outer) {
      if (known.has(layer.text)) continue
      known.add(layer.text)
      left -= layer.text.length
      if (left < 0) return { parts: layers, isComplete: false }
      layers.push(layer)
      fresh.push(layer)
    }
    if (depth === MAX_DEPTH) break
    outer = fresh.flatMap(({ text: within, start, end }) =>
      decoded(within).map((layer) => ({ ...layer, start, end })),
    )
  }
  return { parts: layers, isComplete: true }
}

/** No shorter text has two bytes in hex, a word in base64 or letters with spaces that say something. */
const MIN_RUN = 11

function decoded(text: string): Layer[] {
  const layers: Layer[] = []
  const forms = text.length < MIN_RUN ? 0 : formsIn(text)
  if ((forms & MAY_BE_BASE64) !== 0) withoutBase64(text, layers)
  if ((forms & MAY_BE_HEX) !== 0) withoutHex(text, layers)
  if (text.includes('%') || text.includes('\\') || text.includes('&')) withoutEscapes(text, layers)
  if (text.length < MIN_RUN) return layers
  if ((forms & MAY_BE_SPACED) !== 0) withoutSpaces(text, layers)
  if ((forms & HAS_OTHERS) !== 0) withoutLookAlikes(text, layers)
  if (text.includes('<') || text.includes('\x1b')) withoutMarks(text, layers)
  return layers
}

const MAY_BE_BASE64 = 1
const MAY_BE_HEX = 2
const MAY_BE_SPACED = 4
const HAS_OTHERS = 8

const ALPHANUMERIC = 1
const LETTER = 2
const BASE64_UNIT = 4
const HEX_UNIT = 8
/** What can stand between two bytes in hex, between two lines of base64, and between single letters. */
const HEX_SEPARATOR = 16
const SPACE_BETWEEN = 32
const kinds = new Uint8Array(0x80)
for (const [characters, kind] of [
  ['abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ', LETTER | ALPHANUMERIC | BASE64_UNIT],
  ['0123456789', ALPHANUMERIC | BASE64_UNIT],
  ['+/_-', BASE64_UNIT],
  ['0123456789abcdefABCDEF', HEX_UNIT],
  [' ,:;-', HEX_SEPARATOR],
  [' ._*-', SPACE_BETWEEN],
] as const)
  for (const character of characters) {
    const unit = character.charCodeAt(0)
    kinds[unit] = (kinds[unit] ?? 0) | kind
  }

function kindOf(unit: number): number {
  return unit < 0x80 ? (kinds[unit] ?? 0) : 0
}

/** What the text may have, by its runs of letters and digits and what separates them: it costs a fraction of the searches. */
function formsIn(text: string): number {
  const { length } = text
  let forms = 0
  let base64 = 0
  let hex = 0
  let singles = 0
  for (let at = 0; at < length; ) {
    const separators = at
    for (; at < length; at++) {
      const unit = text.charCodeAt(at)
      const kind = kindOf(unit)
      if ((kind & ALPHANUMERIC) !== 0) break
      if (unit >= 0x80) forms |= HAS_OTHERS
      // A short line goes on in the next one.
      else if (unit === 0x0a) forms |= MAY_BE_BASE64
      if ((kind & BASE64_UNIT) === 0) base64 = 0
      else base64++
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
    if (isLetter(text, start) && !isLetter(text, start + 1) && ++singles > 5) forms |= MAY_BE_SPACED
    if (at > start + 1) singles = isLetter(text, at - 1) && !isLetter(text, at - 2) ? 1 : 0
  }
  return forms
}

function isLetter(text: string, at: number): boolean {
  return (kindOf(text.charCodeAt(at)) & LETTER) !== 0
}

/** A shorter word says nothing. */
const MIN_LOOK_ALIKE = 12
/** Fewer letters say nothing, alone or as a line. */
const MIN_BASE64 = 16
const MIN_LINE = 4
/** White space at the end of a line and at the beginning of the next one. */
const MAX_INDENT = 8

/** Decodes runs of the alphabet of base64; lines of it are one text (RFC 2045 §6.8), however short they are. */
function withoutBase64(text: string, layers: Layer[]): void {
  for (let at = 0; at < text.length; at++) {
    if (!isBase64(text.charCodeAt(at))) continue
    const start = at
    let end = endOfRun(text, at)
    at = end
    let letters = end - start
    if (letters < MIN_LINE) continue
    for (let next = nextLine(text, end); next >= 0; next = nextLine(text, end)) {
      const lineEnd = endOfRun(text, next)
      if (lineEnd - next < MIN_LINE) break
      letters += lineEnd - next
      end = at = lineEnd
    }
    if (letters < MIN_BASE64) continue
    const inner = fromBase64(text.slice(start, end))
    if (inner !== undefined) layers.push({ encoding: 'base64', text: inner, start, end })
  }
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

/** Characters beside an escape that are decoded with it, when no white space ends the word before. */
const MAX_WORD = 512

/** Decodes the words that have escapes; words beside each other as one text. */
function withoutEscapes(text: string, layers: Layer[]): void {
  let start = 0
  let end = -1
  for (const { index, 0: escaped } of matchesOf(text, ESCAPES)) {
    if (index < end) continue
    const from = wordStart(text, index, end)
    if (end >= 0 && from - end > 2) {
      layers.push(unescaped(text, start, end))
      start = from
    } else if (end < 0) start = from
    end = wordEnd(text, index + escaped.length)
  }
  if (end >= 0) layers.push(unescaped(text, start, end))
}

function unescaped(text: string, start: number, end: number): Layer {
  const run = text.slice(start, end)
  const decoded = run.includes('%') ? fromPercent(run) : run
  let plain = decoded.includes('\\') ? fromBackslashes(decoded) : decoded
  if (plain.includes('&')) plain = fromEntities(plain)
  return { encoding: decoded === run ? 'escapes' : 'percent', text: plain, start, end }
}

/** What stands beside marks, without them. */
function withoutMarks(text: string, layers: Layer[]): void {
  let start = 0
  let end = -1
  const layer = (): Layer => ({
    encoding: 'marks',
    text: text.slice(start, end).replace(MARKS, ''),
    start,
    end,
  })
  for (const { index, 0: mark } of matchesOf(text, MARKS)) {
    const from = Math.max(0, index - BESIDE_MARK)
    if (end >= 0 && from > end) layers.push(layer())
    if (end < 0 || from > end) start = from
    end = Math.min(text.length, index + mark.length + BESIDE_MARK)
  }
  if (end >= 0) layers.push(layer())
}

function wordStart(text: string, index: number, min: number): number {
  const least = Math.max(min, index - MAX_WORD, 0)
  let start = index
  while (start > least && text.charCodeAt(start - 1) > 0x20) start--
  return start
}

function wordEnd(text: string, index: number): number {
  const most = Math.min(text.length, index + MAX_WORD)
  let end = index
  while (end < most && text.charCodeAt(end) > 0x20) end++
  return end
}

/** Eight bytes or more, with up to two separators behind each. */
function withoutHex(text: string, layers: Layer[]): void {
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
    const inner = fromHex(text.slice(start, end))
    if (inner !== undefined) layers.push({ encoding: 'hex', text: inner, start, end })
  }
}

function isHex(unit: number): boolean {
  return (kindOf(unit) & HEX_UNIT) !== 0
}

/** The end of two digits and what separates them from the next ones; -1 if there are none. */
function afterByte(text: string, from: number): number {
  let at = text.startsWith('0x', from) ? from + 2 : from
  if (!isHex(text.charCodeAt(at)) || !isHex(text.charCodeAt(at + 1))) return -1
  at += 2
  for (let separators = 0; separators < 2 && ' ,:;-'.includes(text.charAt(at) || '0'); separators++) at++
  return at
}

/** The words that are ASCII when characters have their plain form, and none are hidden. */
function withoutLookAlikes(text: string, layers: Layer[]): void {
  let min = 0
  for (const { index, 0: others } of matchesOf(text, OTHERS)) {
    if (index < min) continue
    const start = wordStart(text, index, min)
    const end = wordEnd(text, index + others.length)
    min = end
    if (end - start < MIN_LOOK_ALIKE) continue
    const plain = text
      .slice(start, end)
      .normalize('NFKD')
      .replace(/[\p{M}\p{Default_Ignorable_Code_Point}]/gu, '')
    if (/^[\0-\x7f]*$/.test(plain)) layers.push({ encoding: 'look-alikes', text: plain, start, end })
  }
}

/** Letters without what stands between them; two spaces or more separate words. */
function withoutSpaces(text: string, layers: Layer[]): void {
  for (const { 0: run, index: start } of matchesOf(text, SPACED)) {
    const plain = run.replace(/([A-Za-z])([ ._*-]{1,3})/g, (_pair, letter: string, between: string) =>
      between.length > 1 ? `${letter} ` : letter,
    )
    layers.push({ encoding: 'spaced', text: plain, start, end: start + run.length })
  }
}

function fromBase64(run: string): string | undefined {
  const letters = run.replace(/\s+/g, '')
  // Words and paths have no digits, capitals and small letters at once; what is encoded has two of them in 16 characters.
  if (letters.length < 16 || !/[A-Z]/.test(letters) || !/[a-z]/.test(letters)) return undefined
  return readableAt([0, 1, 2, 3], (from) => Buffer.from(letters.slice(from), 'base64'))
}

function fromHex(run: string): string | undefined {
  const digits = run.replace(/0x|[ ,:;-]/gi, '')
  return readableAt([0, 1], (from) => Buffer.from(digits.slice(from), 'hex'))
}

function fromPercent(run: string): string {
  return run.replace(/(?:%[0-9A-Fa-f]{2})+/g, (part) =>
    part.length === 3 && part < '%8'
      ? String.fromCharCode(Number.parseInt(part.slice(1), 16))
      : Buffer.from(part.replaceAll('%', ''), 'hex').toString(),
  )
}

function fromBackslashes(run: string): string {
  return run.replace(
    /\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|u\{([0-9A-Fa-f]{1,6})\}|([0-3][0-7]{2}))/g,
    (_escape, x?: string, u?: string, braced?: string, octal?: string) =>
      octal === undefined
        ? character(Number.parseInt(x ?? u ?? braced ?? '', 16))
        : character(Number.parseInt(octal, 8)),
  )
}

const ENTITY: Readonly<Record<string, string>> = {
  lt: '<',
  gt: '>',
  amp: '&',
  quot: '"',
  apos: "'",
  nbsp: ' ',
}

function fromEntities(run: string): string {
  return run.replace(
    /&(?:#(\d{1,7})|#x([0-9A-Fa-f]{1,6})|(\w+));/g,
    (entity, decimal?: string, hex?: string, name = '') =>
      decimal === undefined
        ? hex === undefined
          ? (ENTITY[name] ?? entity)
          : character(Number.parseInt(hex, 16))
        : character(Number(decimal)),
  )
}

function character(code: number): string {
  return code <= 0x10ffff ? String.fromCodePoint(code) : ''
}

/** Control characters other than white space and escape, and the replacement for bytes that are not UTF-8. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: escape is the one that text may have.
const UNREADABLE = /(?:[^\P{Cc}\t\n\v\f\r\x1b]|\ufffd)+/u
/** Shorter text among bytes that are none is there by chance. */
const MIN_READABLE = 12

/**
 * Encoded text can stand behind other characters of the alphabet, such as those of a path: returns the whole as text, else the
 * parts of it that are text, read from each of the given places. Undefined if there are none. UTF-16 is read as its low bytes.
 */
function readableAt(places: readonly number[], decode: (from: number) => Buffer): string | undefined {
  const parts: string[] = []
  for (const from of places) {
    const text = decode(from).toString().replaceAll('\0', '')
    const readable = text.split(UNREADABLE)
    if (readable.length === 1) return text === '' ? undefined : text
    parts.push(...readable.filter((part) => part.length >= MIN_READABLE))
  }
  return parts.length === 0 ? undefined : parts.join('\n')
}
