// The texts of a JSON value: finds what rules describe in each of them, and puts other text in their place.
import {
  hasDuplicateMembers,
  isJsonObject,
  isTooCostly,
  parseJsonContainer,
  pathSegment,
} from '@svc/core/json'
import { ReadingBudget } from '../shared/reading-budget.js'
import { MAX_FINDINGS, type TextFinding, type TextScanner } from './scan.js'
import { removedMark, stripped } from './strip.js'

/** A finding in a JSON value. */
export interface PlacedFinding {
  /** JSON pointer (RFC 6901) of the string, or of the object with this name. */
  readonly pointer: string
  readonly finding: TextFinding
}

/** Characters of one value that are searched. What is behind them counts as unread. */
const MAX_SEARCHED = 4 * 1024 * 1024
/** Texts that are searched as one are at most as long. */
const MAX_JOINED = 64 * 1024
/** A longer text is searched in parts of this size, between which other calls have their turn. */
const PART = 16 * 1024
/** A text that is shorter than this is found at the border of two parts, and of two events. */
export const OVERLAP = 1024
const MAX_DEPTH = 512
/** Values of one response or request; those behind them count as unread. */
const MAX_VALUES = 500_000
/** Characters after which the budget is asked; a value counts as some. */
const STEP = 4096
const PER_VALUE = 4
/** Texts of a value that look like JSON and are not; later ones are read as they are written. */
const MAX_NOT_JSON = 1_000

/** Members of images, audio and other files, in base64. */
const BINARY: ReadonlySet<string> = new Set(['data', 'blob'])

export class TextSearch {
  readonly found: PlacedFinding[] = []
  /** Whether there is text that was not searched. */
  isIncomplete = false
  #scanner: TextScanner
  #budget: ReadingBudget
  #isStripping: boolean
  #left = MAX_SEARCHED
  #values = 0
  #sinceStep = 0
  #notJson = 0

  /** `isStripping`: the value is rebuilt without what was certainly found. */
  constructor(scanner: TextScanner, budget = new ReadingBudget(), isStripping = false) {
    this.#scanner = scanner
    this.#budget = budget
    this.#isStripping = isStripping
  }

  /** The same value if nothing is stripped from it. */
  value(value: unknown, pointer = ''): Promise<unknown> {
    return this.#budget.run(this.#value(value, pointer, 0))
  }

  *#value(value: unknown, pointer: string, depth: number): Reading<unknown> {
    this.#values += 1
    yield* this.#step(0)
    if (typeof value === 'string') return yield* this.#text(value, pointer, depth)
    if (typeof value !== 'object' || value === null) return value
    if (depth > MAX_DEPTH || this.#values > MAX_VALUES || this.#budget.isSpent) {
      this.isIncomplete = true
      return this.#isStripping ? null : value
    }
    return Array.isArray(value)
      ? yield* this.#list(value, pointer, depth)
      : yield* this.#object(value, pointer, depth)
  }

  /** Before characters that are read at once. */
  *#step(characters: number): Reading<void> {
    this.#budget.allow(characters + PER_VALUE)
    this.#sinceStep += characters + PER_VALUE
    if (this.#sinceStep < STEP) return
    this.#sinceStep = 0
    yield
  }

  *#list(value: readonly unknown[], pointer: string, depth: number): Reading<unknown> {
    const changed: unknown[] = []
    for (const [index, item] of value.entries())
      changed.push(hasText(item) ? yield* this.#value(item, `${pointer}/${index}`, depth + 1) : item)
    const whole = yield* this.#acrossItems(value, changed, pointer)
    return whole.some((item, index) => item !== value[index]) ? whole : value
  }

  /** A model reads the texts of a result as one: what begins in one item and ends in the next is found too. */
  *#acrossItems(
    value: readonly unknown[],
    changed: readonly unknown[],
    pointer: string,
  ): Reading<readonly unknown[]> {
    const texts = changed.map((item) =>
      isJsonObject(item) && typeof item['text'] === 'string' ? item['text'] : '',
    )
    if (texts.filter((text) => text !== '').length < 2) return changed
    const joined = texts.join('\n')
    if (joined.length > MAX_JOINED) return changed
    const known = new Set(this.found.map(({ finding }) => finding.rule))
    const findings = ((yield* this.#scanned(joined)) ?? []).filter(
      ({ certain, rule }) => certain && !known.has(rule),
    )
    if (findings.length === 0) return changed
    for (const finding of findings)
      if (this.found.length < MAX_FINDINGS) this.found.push({ pointer, finding })
    if (!this.#isStripping) return changed
    const rule = findings[0]?.rule.id ?? ''
    return value.map((_item, index) => {
      const item = changed[index]
      return texts[index] === '' || !isJsonObject(item) ? item : { ...item, text: removedMark(rule) }
    })
  }

  *#object(value: object, pointer: string, depth: number): Reading<unknown> {
    let isChanged = false
    const changed: [string, unknown][] = []
    const type: unknown = isJsonObject(value) ? value['mimeType'] : undefined
    for (const [name, member] of Object.entries(value)) {
      // A name with a finding, which may be a secret, is not a part of a place.
      const before = this.found.length
      const shownName = yield* this.#text(name, pointer, depth)
      const at = `${pointer}/${this.found.length > before ? '*' : pathSegment(name)}`
      const isFile = typeof type === 'string' && typeof member === 'string' && BINARY.has(name)
      const shown = isFile
        ? yield* this.#file(member, type, at, depth + 1)
        : hasText(member)
          ? yield* this.#value(member, at, depth + 1)
          : member
      isChanged ||= shown !== member || shownName !== name
      changed.push([shownName, shown])
    }
    return isChanged ? Object.fromEntries(changed) : value
  }

  /** Leaves data that no model reads as text as it is. */
  *#file(data: string, type: string, pointer: string, depth: number): Reading<string> {
    if (!BASE64.test(data)) return yield* this.#text(data, pointer, depth)
    if (!TEXTUAL.test(type) && !isUtf8(Buffer.from(data.slice(0, 1024), 'base64'))) return data
    const text = Buffer.from(data, 'base64').toString()
    const shown = yield* this.#text(text, pointer, depth)
    return shown === text ? data : Buffer.from(shown).toString('base64')
  }

  *#text(text: string, pointer: string, depth: number): Reading<string> {
    const inner = depth < MAX_DEPTH ? this.#parsed(text) : undefined
    // If several members have one name, a parser keeps one, and a model reads all.
    if (inner !== undefined && !hasDuplicateMembers(text, inner)) {
      const shown = yield* this.#value(inner, pointer, depth + 1)
      return shown === inner ? text : JSON.stringify(shown)
    }
    this.#left -= text.length
    const findings = this.#left < 0 ? undefined : yield* this.#scanned(text)
    if (findings === undefined) {
      this.isIncomplete = true
      return this.#isStripping ? '[removed: too long to be checked]' : text
    }
    if (findings.length === 0) return text
    for (const finding of findings) {
      if (this.found.length < MAX_FINDINGS) this.found.push({ pointer, finding })
    }
    return this.#isStripping ? stripped(text, findings) : text
  }

  /** The JSON in a text. An error of the parser takes long, so that a message has only so many. */
  #parsed(text: string): object | undefined {
    if (this.#notJson > MAX_NOT_JSON || !/^\s*[[{]/.test(text)) return undefined
    if (!/[\]}]/.test(text.trimEnd().slice(-1)) || isTooCostly(text)) return undefined
    const inner = parseJsonContainer(text)
    if (inner === undefined) this.#notJson++
    return inner
  }

  /** Undefined if the budget is spent before its end. */
  *#scanned(text: string): Reading<readonly TextFinding[] | undefined> {
    yield* this.#step(text.length)
    if (this.#budget.isSpent) return undefined
    if (text.length < STEP) return this.#scanner.scan(text)
    if (text.length <= PART) return yield* this.#scanner.steps(text)
    const findings: TextFinding[] = []
    for (let start = 0; start < text.length; start += PART) {
      yield
      if (this.#budget.isSpent) return undefined
      const from = Math.max(0, start - OVERLAP)
      for (const one of yield* this.#scanner.steps(text.slice(from, start + PART)))
        findings.push({ ...one, start: one.start + from, end: one.end + from })
    }
    return findings
  }
}

/** Others can have their turn at each step. */
type Reading<T> = Generator<undefined, T>

/** Space has one place in it, as the time would be quadratic otherwise. */
const BASE64 = /^[A-Za-z0-9+/_\s-]*(?:={1,2}\s*)?$/
const TEXTUAL = /^text\/|json|xml|yaml|script/i

/** Whether the beginning of a text, which can end within a character, is UTF-8. */
function isUtf8(bytes: Uint8Array): boolean {
  try {
    return !new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true }).includes('\0')
  } catch (error) {
    if (error instanceof TypeError) return false
    throw error
  }
}

function hasText(value: unknown): boolean {
  return typeof value === 'string' || (typeof value === 'object' && value !== null)
}
