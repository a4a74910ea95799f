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

/**
 * Tags and sequences of a terminal within a word, and comments: a page or a terminal does not show them. What stands before
 * is looked at behind the first character, which few texts have.
 */
const MARKS =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these sequences begin with control characters.
  /(?:<(?<=\w\r?\n?<)[^<>\n]{1,256}>|\x1b(?<=\w\r?\n?\x1b)\[[0-9;]{0,32}[A-Za-z])(?:<[^<>\n]{1,256}>|\x1b\[[0-9;]{0,32}[A-Za-z]){0,15}(?=\r?\n?\w)|<!--[^<>]{0,1024}-->/g
/** Characters before and behind a mark that are read without marks. */
const BESIDE_MARK = 256
/** Six or more single letters or digits: `i g n o r e`, `i-g-n-o-r-e`. */
const SPACED = /(?<![A-Za-z0-9])(?:[A-Za-z0-9][ ._*,|\n-]{1,3}){5,}[A-Za-z0-9](?![A-Za-z0-9])/g

/** Encodings within encodings are followed this far. */
const MAX_DEPTH = 4
/** Decoded text in all, in UTF-16 code units: base64 in base64, four times, is twice as long in all as what is given. */
const MAX_GROWTH = 2
const MIN_DECODED = 4096

export interface DecodedText {
  readonly parts: readonly Layer[]
  /** False if there is more to decode than is decoded. */
  readonly isComplete: boolean
}

/** The decoded parts of a text, and theirs, with at most twice its length in all, or 4,096 characters. */
export function decodedParts(text: string): DecodedText {
  if (text.length < MIN_RUN && !/[%\\&]/.test(text)) return { parts: [], isComplete: true }
  const parts = decoded(text)
  if (parts.length === 0) return { parts, isComplete: true }
  // Two encodings can be decoded in two orders.
  const known = new Set([text])
  let left = Math.max(text.length * MAX_GROWTH, MIN_DECODED)
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

/** Characters before and behind an escape that are read with it, to the ends of words. */
const BESIDE_ESCAPE = 48

/** Decodes escapes once, with what stands beside them. */
function withoutEscapes(text: string, layers: Layer[]): void {
  const one = new Escape(text)
  let plain = ''
  let [start, copied, end] = [0, 0, -1]
  let encoding: Layer['encoding'] = 'escapes'
  const addWords = (): void => {
    if (end >= 0) layers.push({ encoding, text: plain + text.slice(copied, end), start, end })
  }
  for (let at = 0; at < text.length; at++) {
    if (!one.readAt(at)) continue
    if (at >= end) {
      const from = wordStart(text, Math.max(at - BESIDE_ESCAPE, 0), end)
      if (end < 0 || from > end) {
        addWords()
        plain = ''
        start = copied = from
        encoding = 'escapes'
      }
    }
    const least = Math.min(one.end + BESIDE_ESCAPE, text.length)
    if (least > end) end = wordEnd(text, least)
    if (text.charCodeAt(at) === PERCENT) encoding = 'percent'
    plain += text.slice(copied, at) + one.plain
    copied = one.end
    at = copied - 1
  }
  addWords()
}

const PERCENT = 0x25
const AMPERSAND = 0x26
const BACKSLASH = 0x5c
const SEMICOLON = 0x3b

/** Reads escapes of URLs, of strings in programs, and of HTML. */
class Escape {
  /** The text of the escape that was read, and the index of its end. */
  plain = ''
  end = 0
  readonly #text: string

  constructor(text: string) {
    this.#text = text
  }

  /** Whether an escape begins there; a run of escapes of a URL is one, as a character can have several bytes. */
  readAt(at: number): boolean {
    switch (this.#text.charCodeAt(at)) {
      case PERCENT:
        return this.#percents(at)
      case BACKSLASH:
        return this.#backslash(at)
      case AMPERSAND:
        return this.#entity(at)
      default:
        return false
    }
  }

  #percents(start: number): boolean {
    let plain = ''
    let isAscii = true
    let at = start
    while (this.#text.charCodeAt(at) === PERCENT) {
      const byte = this.#number(at + 1, 16, 2, 2)
      if (byte < 0) break
      if (byte > 0x7f) isAscii = false
      plain += String.fromCharCode(byte)
      at = this.end
    }
    this.end = at
    this.plain = isAscii ? plain : Buffer.from(plain, 'latin1').toString()
    // Older programs write `%u0041`.
    return at > start || (this.#text.charAt(at + 1) === 'u' && this.#take(this.#number(at + 2, 16, 4, 4)))
  }

  #backslash(at: number): boolean {
    const kind = this.#text.charAt(at + 1)
    if (kind === 'x') return this.#take(this.#number(at + 2, 16, 2, 2))
    if (kind === 'u' && this.#text.charAt(at + 2) === '{')
      return this.#take(this.#number(at + 3, 16, 1, 6), '}')
    if (kind === 'u') return this.#take(this.#number(at + 2, 16, 4, 4))
    return kind >= '0' && kind <= '3' && this.#take(this.#number(at + 1, 8, 3, 3))
  }

  #entity(at: number): boolean {
    const kind = this.#text.charAt(at + 1)
    if (kind === '#' && (this.#text.charCodeAt(at + 2) | 0x20) === 0x78)
      return this.#takeEntity(this.#number(at + 3, 16, 1, 6))
    if (kind === '#') return this.#takeEntity(this.#number(at + 2, 10, 1, 7))
    for (const [name, character] of ENTITIES) {
      const end = at + 1 + name.length
      if (this.#text.charCodeAt(end) !== SEMICOLON || !this.#text.startsWith(name, at + 1)) continue
      this.plain = character
      this.end = end + 1
      return true
    }
    return false
  }

  /** Browsers read numbers without the semicolon too. */
  #takeEntity(code: number): boolean {
    return this.#take(code, this.#text.charCodeAt(this.end) === SEMICOLON ? ';' : '')
  }

  #take(code: number, close = ''): boolean {
    if (code < 0 || !this.#text.startsWith(close, this.end)) return false
    this.plain = code <= 0x10ffff ? String.fromCodePoint(code) : ''
    this.end += close.length
    return true
  }

  /** -1 for fewer digits than `least`. */
  #number(from: number, radix: number, least: number, most: number): number {
    let value = 0
    let at = from
    for (; at < from + most; at++) {
      const digit = digitOf(this.#text.charCodeAt(at))
      if (digit >= radix) break
      value = value * radix + digit
    }
    this.end = at
    return at - from < least ? -1 : value
  }
}

const ENTITIES = [
  ['lt', '<'],
  ['gt', '>'],
  ['amp', '&'],
  ['quot', '"'],
  ['apos', "'"],
  ['nbsp', ' '],
] as const

/** 16 or more for a character that is not a digit. */
function digitOf(unit: number): number {
  if (unit >= 0x30 && unit <= 0x39) return unit - 0x30
  const letter = (unit | 0x20) - 0x57
  return letter >= 10 ? letter : 16
}

/** What stands beside marks, without them. */
function withoutMarks(text: string, layers: Layer[]): void {
  let plain = ''
  let [start, copied, end] = [0, 0, -1]
  const addText = (): void => {
    if (end >= 0) layers.push({ encoding: 'marks', text: plain + text.slice(copied, end), start, end })
  }
  for (const { index, 0: mark } of matchesOf(text, MARKS)) {
    const from = Math.max(0, index - BESIDE_MARK)
    if (end < 0 || from > end) {
      addText()
      plain = ''
      start = copied = from
    }
    plain += text.slice(copied, index)
    copied = index + mark.length
    end = Math.min(text.length, copied + BESIDE_MARK)
  }
  addText()
}

function wordStart(text: string, index: number, min: number): number {
  const least = Math.max(min, index - MAX_WORD, 0)
  let start = Math.max(index, min)
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
  let end = 0
  for (let at = 0; at < text.length; at++) {
    if (text.charCodeAt(at) < 0x80) continue
    const start = wordStart(text, at, end)
    end = wordEnd(text, at + 1)
    at = end - 1
    const plain = end - start < MIN_LOOK_ALIKE ? undefined : plainWord(text, start, end)
    if (plain !== undefined) layers.push({ encoding: 'look-alikes', text: plain, start, end })
  }
}

/** Undefined for a word that is not ASCII in its plain form. */
function plainWord(text: string, start: number, end: number): string | undefined {
  let plain = ''
  let copied = start
  for (let at = start; at < end; at++) {
    if (text.charCodeAt(at) < 0x80) continue
    const code = text.codePointAt(at) ?? 0
    const form = plainForm(code)
    if (form === undefined) return undefined
    plain += text.slice(copied, at) + form
    if (code > 0xffff) at++
    copied = at + 1
  }
  return plain + text.slice(copied, end)
}

const MAX_FORMS = 8192
const plainForms = new Map<number, string | undefined>()

/** The ASCII that a character stands for; empty for one that is not shown, undefined for others. */
function plainForm(code: number): string | undefined {
  const known = plainForms.get(code)
  if (known !== undefined || plainForms.has(code)) return known
  const plain = String.fromCodePoint(code)
    .normalize('NFKD')
    .replace(/[\p{M}\p{Default_Ignorable_Code_Point}]/gu, '')
  const form = /^[\0-\x7f]*$/.test(plain) ? plain : undefined
  if (plainForms.size >= MAX_FORMS) plainForms.clear()
  plainForms.set(code, form)
  return form
}

/** Letters without what stands between them; two spaces or more separate words. */
function withoutSpaces(text: string, layers: Layer[]): void {
  for (const { 0: run, index: start } of matchesOf(text, SPACED)) {
    let plain = ''
    for (let at = 0; at < run.length; ) {
      plain += run.charAt(at)
      const letter = at
      do at++
      while (at < run.length && digitOrLetter(run.charCodeAt(at)) === false)
      const [first, sign, last] = run.slice(letter + 1, at)
      // A sign that stands like the letters is one of them.
      if (last !== undefined && first === last && first !== sign) plain += sign
      else if (sign !== undefined) plain += ' '
    }
    layers.push({ encoding: 'spaced', text: plain, start, end: start + run.length })
  }
}

function digitOrLetter(unit: number): boolean {
  const letter = unit | 0x20
  return (unit >= 0x30 && unit <= 0x39) || (letter >= 0x61 && letter <= 0x7a)
}
