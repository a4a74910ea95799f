// Texts within a text: what a model or a program gets when it decodes a part of it.
import { matchesOf } from '@svc/core/pii'
import {
  base64Runs,
  type DecodedRun,
  formsIn,
  HAS_OTHERS,
  hexRuns,
  MAY_BE_BASE64,
  MAY_BE_HEX,
  MAY_BE_SPACED,
} from './encoded-runs.js'

/** A decoded part, with the bounds of the part that it comes from in the outermost text. */
export interface Layer extends DecodedRun {
  readonly encoding: 'base64' | 'hex' | 'percent' | 'escapes' | 'spaced' | 'look-alikes' | 'marks'
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
/** Six or more single letters or digits: `i g n o r e`, `i-g-n-o-r-e`. */
const SPACED = /(?<![A-Za-z0-9])(?:[A-Za-z0-9][ ._*-]{1,3}){5,}[A-Za-z0-9](?![A-Za-z0-9])/g

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
  if ((forms & MAY_BE_BASE64) !== 0)
    for (const run of base64Runs(text)) layers.push({ encoding: 'base64', ...run })
  if ((forms & MAY_BE_HEX) !== 0) for (const run of hexRuns(text)) layers.push({ encoding: 'hex', ...run })
  if (text.includes('%') || text.includes('\\') || text.includes('&')) withoutEscapes(text, layers)
  if (text.length < MIN_RUN) return layers
  if ((forms & MAY_BE_SPACED) !== 0) withoutSpaces(text, layers)
  if ((forms & HAS_OTHERS) !== 0) withoutLookAlikes(text, layers)
  if (text.includes('<') || text.includes('\x1b')) withoutMarks(text, layers)
  return layers
}

/** A shorter word says nothing. */
const MIN_LOOK_ALIKE = 12
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
    const plain = run.replace(/([A-Za-z0-9])([ ._*-]{1,3})/g, (_pair, letter: string, between: string) =>
      between.length > 1 ? `${letter} ` : letter,
    )
    layers.push({ encoding: 'spaced', text: plain, start, end: start + run.length })
  }
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
