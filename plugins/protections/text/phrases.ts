// Phrases as sequences of words, found in one pass over a text. The time is linear in the text, whatever the phrases are:
// of the places where a phrase could have begun the latest is the best, so that one position for each of its steps is enough.
import { letterOf, letterOfPair, SEPARATOR, SKIPPED } from './letters.js'

/** A phrase with the words of each step, in lower case; one that ends with `*` stands for all words that begin with it. */
export interface Phrase {
  readonly steps: readonly Step[]
}

interface Step {
  readonly words: readonly string[]
  /** How many other words may stand before it; 0 for the first step. */
  readonly gap: number
}

/** A phrase in a text, in UTF-16 code units from its first to after its last word. */
export interface PhraseMatch {
  /** Its place in the list of phrases. */
  readonly phrase: number
  readonly start: number
  readonly end: number
}

/**
 * A phrase as rules write it: words of a step with `|`, steps with spaces, and `..N` where up to N other words may stand:
 * `ignore|disregard ..3 previous|prior ..2 instruction*`.
 * @throws {SyntaxError} it has no words, or a word is too long or has other characters than ASCII letters and digits.
 */
export function parsePhrase(text: string): Phrase {
  const steps: Step[] = []
  let gap = 0
  for (const part of text.trim().split(/\s+/)) {
    const between = /^\.\.(\d+)$/.exec(part)
    if (between !== null) {
      gap = Number(between[1])
      continue
    }
    const words = part.split('|')
    const wrong = words.find((word) => !/^[a-z0-9]{1,30}\*?$/.test(word))
    if (wrong !== undefined)
      throw new SyntaxError(
        `"${wrong}" is not a word: up to 30 lower-case letters and digits, then * or nothing`,
      )
    steps.push({ words, gap: steps.length === 0 ? 0 : gap })
    gap = 0
  }
  return { steps }
}

/** Words of two sentences are this far apart, further than any gap. */
const SENTENCE = 64
const NEVER = -1_000_000
/** A text moves it on by at most 64 for each character. */
const MAX_POSITION = 1_000_000_000
const EXACT = 1
const PREFIX = 2

interface Place {
  readonly word: string
  readonly isPrefix: boolean
  readonly phrase: number
  /** In the array of all steps. */
  readonly step: number
  readonly isFirst: boolean
  readonly isLast: boolean
  readonly gap: number
}

/** Finds phrases in texts, one text after the other: a search keeps its positions here. */
export class PhraseMatcher {
  /** By the hash of the word or of its beginning. */
  readonly #places = new Map<number, Place[]>()
  /** The lowest 16 bits of hashes that can be in `#places`. */
  readonly #filter = new Uint8Array(65_536)
  /** The lengths of the words, and of the beginnings, that begin with a character: a bit for each up to 31. */
  readonly #exactLengths = new Uint32Array(0x80)
  readonly #prefixLengths = new Uint32Array(0x80)
  /** The position of the word that completed each step last, and the beginning of the phrase then. */
  readonly #position: Int32Array
  readonly #start: Int32Array
  /** The steps that the current word completes, and where the phrase began. */
  readonly #hits: Place[] = []
  readonly #hitStarts: number[] = []
  /** The position after the last text: no phrase spans two texts. */
  #next = 0
  /** Characters of the shortest phrase. */
  readonly #shortest: number

  constructor(phrases: readonly Phrase[]) {
    let step = 0
    for (const [phrase, { steps }] of phrases.entries()) {
      for (const [index, { words, gap }] of steps.entries()) {
        for (const written of words) {
          const isPrefix = written.endsWith('*')
          const word = isPrefix ? written.slice(0, -1) : written
          const place = {
            word,
            isPrefix,
            phrase,
            step,
            isFirst: index === 0,
            isLast: index === steps.length - 1,
            gap,
          }
          this.#add(place)
        }
        step++
      }
    }
    this.#shortest = Math.min(...phrases.map(shortestOf))
    this.#position = new Int32Array(step).fill(NEVER)
    this.#start = new Int32Array(step)
  }

  #add(place: Place): void {
    let hash = BASIS
    for (let index = 0; index < place.word.length; index++) hash = hashed(hash, place.word.charCodeAt(index))
    const places = this.#places.get(hash) ?? []
    places.push(place)
    this.#places.set(hash, places)
    this.#filter[hash & 0xffff] = (this.#filter[hash & 0xffff] ?? 0) | (place.isPrefix ? PREFIX : EXACT)
    const lengths = place.isPrefix ? this.#prefixLengths : this.#exactLengths
    const first = place.word.charCodeAt(0)
    lengths[first] = (lengths[first] ?? 0) | (1 << place.word.length)
  }

  /** In the order of their ends; each end of a phrase at most once. */
  find(text: string): PhraseMatch[] {
    const matches: PhraseMatch[] = []
    if (text.length < this.#shortest) return matches
    if (this.#next > MAX_POSITION) {
      this.#position.fill(NEVER)
      this.#next = 0
    }
    let position = this.#next
    let wordStart = -1
    let hash = BASIS
    /** The letters of the word up to here as a bit, and the lengths of the words that begin as it does. */
    let length = 0
    let prefixes = 0
    let words = 0
    /** The same word, with digits read as the letters that they resemble. */
    let spelled = BASIS
    let hasDigit = false
    // A word may be written over several lines: the last line's, and that of all lines with one word each.
    let lastStart = -1
    let last = BASIS
    let lineStart = -1
    let lines = BASIS
    let breaks = 0
    for (let index = 0; index <= text.length; index++) {
      const unit = index < text.length ? text.charCodeAt(index) : 0x20
      let letter = letterOf(unit)
      if (letter === SEPARATOR && unit >= 0xd800 && unit < 0xdc00) {
        letter = letterOfPair(unit, text.charCodeAt(index + 1))
        if (letter !== SEPARATOR) index++
      }
      if (letter === SKIPPED || (wordStart >= 0 && isWithinWord(text, index, unit))) continue
      const digit = unit < 0x80 ? (digitLetters[unit] ?? 0) : 0
      if (letter !== SEPARATOR || (digit !== 0 && wordStart >= 0 && isLetter(text.charCodeAt(index + 1)))) {
        if (wordStart < 0) {
          wordStart = index
          hash = BASIS
          hasDigit = false
          length = 1
          prefixes = this.#prefixLengths[letter] ?? 0
          words = this.#exactLengths[letter] ?? 0
        }
        const read = digit === 0 ? letter : digit
        if (hasDigit || digit !== 0) {
          spelled = hashed(hasDigit ? spelled : hash, read)
          hasDigit = true
          this.#collect(spelled, PREFIX, wordStart, position)
        }
        hash = hashed(hash, letter)
        length <<= 1
        if ((prefixes & length) !== 0) this.#collect(hash, PREFIX, wordStart, position)
        if (breaks > 0) {
          last = hashed(last, read)
          lines = hashed(lines, read)
          this.#collect(last, PREFIX, lastStart, position, 1)
          if (breaks > 1) this.#collect(lines, PREFIX, lineStart, position, breaks)
        }
        continue
      }
      if (wordStart >= 0) {
        if ((words & length) !== 0) this.#collect(hash, EXACT, wordStart, position)
        if (hasDigit) this.#collect(spelled, EXACT, wordStart, position)
        if (breaks > 0) this.#collect(last, EXACT, lastStart, position, 1)
        if (breaks > 1) this.#collect(lines, EXACT, lineStart, position, breaks)
        if (this.#hits.length > 0) this.#take(index, position, matches)
        position++
        lastStart = wordStart
        last = hasDigit ? spelled : hash
        if (breaks === 0) {
          lineStart = wordStart
          lines = last
        }
        breaks = isLineEnd(unit) ? breaks + 1 : 0
        wordStart = -1
      } else if (!isLineEnd(unit)) breaks = 0
      if (isSentenceEnd(unit, text.charCodeAt(index + 1))) position += SENTENCE
    }
    this.#next = position + SENTENCE
    return matches
  }

  /**
   * Notes the steps that a word from `start`, with so many breaks in it, or words with this beginning complete. They are
   * judged by what the words before it completed, so that no word serves two steps of a phrase.
   */
  #collect(hash: number, kind: number, start: number, position: number, breaks = 0): void {
    if (((this.#filter[hash & 0xffff] ?? 0) & kind) === 0) return
    for (const place of this.#places.get(hash) ?? []) {
      if (place.isPrefix !== (kind === PREFIX)) continue
      if (place.isFirst) {
        this.#hits.push(place)
        this.#hitStarts.push(start)
        continue
      }
      const before = place.step - 1
      const between = position - (this.#position[before] ?? NEVER) - 1
      if (between > place.gap + breaks) continue
      this.#hits.push(place)
      this.#hitStarts.push(this.#start[before] ?? start)
    }
  }

  #take(end: number, position: number, matches: PhraseMatch[]): void {
    for (const [index, { step, phrase, isLast }] of this.#hits.entries()) {
      const start = this.#hitStarts[index] ?? end
      this.#start[step] = start
      this.#position[step] = position
      if (isLast) matches.push({ phrase, start, end })
    }
    this.#hits.length = 0
    this.#hitStarts.length = 0
  }
}

/** Marks of emphasis between letters, and a hyphen at the end of a line: `ig**nore**`, `ig-⏎nore`. */
function isWithinWord(text: string, index: number, unit: number): boolean {
  if (unit === 0x2d) return isLineEnd(text.charCodeAt(index + 1))
  if (unit !== 0x2a) return false
  const next = text.charCodeAt(index + 1)
  return isLetter(next === 0x2a ? text.charCodeAt(index + 2) : next)
}

function isLineEnd(unit: number): boolean {
  return unit === 0x0a || unit === 0x0d
}

function shortestOf({ steps }: Phrase): number {
  const lengths = steps.map(({ words }) => Math.min(...words.map((word) => word.replace('*', '').length)))
  return lengths.reduce((sum, length) => sum + length, steps.length - 1)
}

const BASIS = 0x811c9dc5 | 0

/** FNV-1a with 32 bits, by code units. A word that has the hash of another by chance is taken for it. */
function hashed(hash: number, unit: number): number {
  return Math.imul(hash ^ unit, 0x01000193)
}

/** The letter that a digit or sign stands for in words such as `1gn0re`; 0 for others. */
const digitLetters = new Uint8Array(0x80)
for (const [sign = '', letter = ''] of ['0o', '1i', '!i', '3e', '4a', '@a', '5s', '$s', '7t'])
  digitLetters[sign.charCodeAt(0)] = letter.charCodeAt(0)

function isLetter(unit: number): boolean {
  return letterOf(unit) > SKIPPED
}

/** A mark that ends a sentence and is followed by space, or an empty line. */
function isSentenceEnd(unit: number, next: number): boolean {
  if (unit === 0x0a) return next === 0x0a || next === 0x0d
  return (
    (unit === 0x2e || unit === 0x21 || unit === 0x3f || unit === 0x3b) && (Number.isNaN(next) || next <= 0x20)
  )
}
