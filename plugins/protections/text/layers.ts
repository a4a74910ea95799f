// Texts within a text: what a model or a program gets when it decodes a part of it.
import { matchesOf } from '@svc/core/pii'

/** A decoded part, with the bounds of the part that it comes from in the outermost text. */
export interface Layer {
  readonly encoding:
    | 'base64'
    | 'hex'
    | 'percent'
    | 'escapes'
    | 'entities'
    | 'spaced'
    | 'look-alikes'
    | 'marks'
  readonly text: string
  readonly start: number
  readonly end: number
}

/** Lines of it are one text (RFC 2045 §6.8), however short they are. */
const BASE64 =
  /(?<![A-Za-z0-9+/_-])(?:[A-Za-z0-9+/_-]{16,}|[A-Za-z0-9+/_-]{4,}(?=[ \t]{0,8}\r?\n))(?:[ \t]{0,8}\r?\n[ \t]{0,8}[A-Za-z0-9+/_-]{4,})*={0,2}/g
const HEX = /(?<![0-9A-Fa-f])(?:(?:0x)?[0-9A-Fa-f]{2}[ ,:;-]{0,2}){8,}/g
/** A word in which a character has another form, or is not shown. */
const WORD = /\S{12,4096}/g
const NOT_ASCII = /\P{ASCII}/u
const PERCENT = /%[0-9A-Fa-f]{2}/g
const ESCAPES = /\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]{1,6}\}|[0-3][0-7]{2})/g
const ENTITIES = /&(?:#\d{1,7}|#x[0-9A-Fa-f]{1,6}|lt|gt|amp|quot|apos|nbsp);/g
/** Tags and sequences of a terminal within a word, and comments: a page or a terminal does not show them. */
const MARKS =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these sequences begin with control characters.
  /(?<=\w\r?\n?)(?:<[^<>\n]{1,64}>|\x1b\[[0-9;]{0,32}[A-Za-z]){1,16}(?=\r?\n?\w)|<!--[^<>]{0,128}-->/g
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
  const layers: Layer[] = []
  // Two encodings can be decoded in two orders.
  const known = new Set([text])
  let left = Math.max(text.length, 1024) * MAX_GROWTH
  let outer: readonly Layer[] = [{ encoding: 'spaced', text, start: 0, end: text.length }]
  for (let depth = 0; depth < MAX_DEPTH && outer.length > 0; depth++) {
    const found: Layer[] = []
    for (const { text: within, start, end } of outer) {
      for (const layer of decoded(within)) {
        if (known.has(layer.text)) continue
        known.add(layer.text)
        left -= layer.text.length
        if (left < 0) return { parts: [...layers, ...found], isComplete: false }
        found.push(depth === 0 ? layer : { ...layer, start, end })
      }
    }
    layers.push(...found)
    outer = found
  }
  return { parts: layers, isComplete: true }
}

/** No shorter text has two bytes in hex, a word in base64 or letters with spaces that say something. */
const MIN_RUN = 11

function* decoded(text: string): Generator<Layer> {
  if (text.length >= MIN_RUN) {
    yield* each('base64', text, BASE64, fromBase64)
    yield* each('hex', text, HEX, fromHex)
  }
  if (text.includes('%')) yield* around('percent', text, PERCENT, fromPercent)
  if (text.includes('\\')) yield* around('escapes', text, ESCAPES, fromEscapes)
  if (text.includes('&')) yield* around('entities', text, ENTITIES, fromEntities)
  if (text.length < MIN_RUN) return
  yield* each('spaced', text, SPACED, fromSpaced)
  if (NOT_ASCII.test(text)) yield* each('look-alikes', text, WORD, fromLookAlikes)
  if (text.includes('<') || text.includes('\x1b')) yield* withoutMarks(text)
}

/** Characters beside an escape that are decoded with it, when no white space ends the word before. */
const MAX_WORD = 512

/** Decodes the words that have escapes; words beside each other as one text. */
function* around(
  encoding: Layer['encoding'],
  text: string,
  unit: RegExp,
  decode: (run: string) => string,
): Generator<Layer> {
  let start = 0
  let end = -1
  for (const { index, 0: escaped } of matchesOf(text, unit)) {
    if (index < end) continue
    const from = wordStart(text, index, end)
    if (end >= 0 && from - end > 2) {
      yield { encoding, text: decode(text.slice(start, end)), start, end }
      start = from
    } else if (end < 0) start = from
    end = wordEnd(text, index + escaped.length)
  }
  if (end >= 0) yield { encoding, text: decode(text.slice(start, end)), start, end }
}

/** What stands beside marks, without them. */
function* withoutMarks(text: string): Generator<Layer> {
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
    if (end >= 0 && from > end) yield layer()
    if (end < 0 || from > end) start = from
    end = Math.min(text.length, index + mark.length + BESIDE_MARK)
  }
  if (end >= 0) yield layer()
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

function* each(
  encoding: Layer['encoding'],
  text: string,
  pattern: RegExp,
  decode: (run: string) => string | undefined,
): Generator<Layer> {
  for (const match of matchesOf(text, pattern)) {
    const inner = decode(match[0])
    if (inner !== undefined && inner !== match[0])
      yield { encoding, text: inner, start: match.index, end: match.index + match[0].length }
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

/** In ASCII; undefined for a word of another script. */
function fromLookAlikes(run: string): string | undefined {
  if (!NOT_ASCII.test(run)) return undefined
  const plain = run.normalize('NFKD').replace(/[\p{M}\p{Default_Ignorable_Code_Point}]/gu, '')
  return NOT_ASCII.test(plain) ? undefined : plain
}

function fromPercent(run: string): string {
  return run.replace(/(?:%[0-9A-Fa-f]{2})+/g, (part) =>
    Buffer.from(part.replaceAll('%', ''), 'hex').toString(),
  )
}

function fromEscapes(run: string): string {
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

/** Letters without what stands between them; two spaces or more separate words. */
function fromSpaced(run: string): string {
  return run.replace(/([A-Za-z])([ ._*-]{1,3})/g, (_pair, letter: string, between: string) =>
    between.length > 1 ? `${letter} ` : letter,
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
