// The texts of a JSON value: finds what rules describe in each of them, and puts other text in their place.
import {
  hasDuplicateMembers,
  isJsonObject,
  isTooCostly,
  parseJsonContainer,
  pathSegment,
} from '@svc/core/json'
import { ReadingBudget } from '../shared/reading-budget.js'
import type { TextRule } from './rules.js'
import { firstAbove, MAX_FINDINGS, type TextFinding, type TextScanner } from './scan.js'
import { removedMark, stripped } from './strip.js'

/** A finding in a JSON value. */
export interface PlacedFinding {
  /** JSON pointer (RFC 6901) of the string, or of the object with this name. */
  readonly pointer: string
  readonly finding: TextFinding
}

/** Characters of one value that are searched. What is behind them counts as unread. */
const MAX_SEARCHED = 4 * 1024 * 1024
/** A longer text is searched in parts of this size, between which other calls have their turn. */
const PART = 16 * 1024
/** A text that is shorter than this is found at the border of two parts, and of two events. */
export const OVERLAP = 1024
const MAX_DEPTH = 512
/** How often a text is judged again after something was removed from it; one that changes then still is removed. */
const MAX_REMOVALS = 8
/** Values of one response or request; those behind them count as unread. */
const MAX_VALUES = 500_000
/** Characters after which others may have a turn, which is often enough for code that is not compiled yet; a value counts as some. */
const STEP = 512
const PER_VALUE = 4
/** Texts of a value that look like JSON and are not; later ones are read as they are written. */
const MAX_NOT_JSON = 1_000

/** Arguments that are read together: a command line is in few and short ones. */
const MAX_ARGUMENT = 64
const MAX_ARGUMENTS = 16

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
    return this.#budget.run(this.#whole(value, pointer, 0))
  }

  /** Each text of a value, then all of them as one. */
  *#whole(value: unknown, pointer: string, depth: number): Reading<unknown> {
    const shown = yield* this.#value(value, pointer, depth)
    if (this.#scanner.isForModel) return yield* this.#acrossTexts(shown, pointer)
    if (typeof value === 'object' && value !== null) yield* this.#acrossArguments(value, pointer)
    return shown
  }

  /** A program can put its short arguments together: what only they have in common is found too. */
  *#acrossArguments(value: object, pointer: string): Reading<void> {
    const texts = textsIn(value).filter(({ length }) => length <= MAX_ARGUMENT)
    if (texts.length < 2 || texts.length > MAX_ARGUMENTS) return
    for (const between of [' ', '']) {
      for (const finding of (yield* this.#scanned(texts.join(between))) ?? [])
        if (finding.rule.class === 'command' && !this.#hasRule(finding.rule))
          this.found.push({ pointer, finding })
    }
  }

  #hasRule(rule: TextRule): boolean {
    return this.found.some(({ finding }) => finding.rule === rule)
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
    return changed.some((item, index) => item !== value[index]) ? changed : value
  }

  /** A model reads the texts of a result one after the other: what begins in one and ends in another is found too. */
  *#acrossTexts(value: unknown, pointer: string): Reading<unknown> {
    let shown = value
    for (let times = 0; times <= MAX_REMOVALS; times++) {
      const texts = textsIn(shown)
      if (texts.length < 2) return shown
      const { text, ends } = joinedAtBorders(texts)
      const scanned = this.#values > MAX_VALUES ? undefined : yield* this.#scanned(text)
      if (scanned === undefined) {
        this.isIncomplete = true
        return this.#isStripping ? withTexts(shown, () => removedMark('too long to be checked')) : shown
      }
      // Where texts are stripped, each of them has no certain finding alone.
      const findings = scanned.filter(
        ({ certain, rule }) => certain && (this.#isStripping || !this.#hasCertain(rule)),
      )
      for (const finding of findings)
        if (this.found.length < MAX_FINDINGS) this.found.push({ pointer, finding })
      const [{ rule } = {}] = findings
      if (rule === undefined || !this.#isStripping) return shown
      const touched = touchedBy(findings, ends)
      const mark = removedMark(rule.id)
      shown = withTexts(shown, (one, index) => (touched.has(index) ? mark : one))
    }
    return withTexts(shown, () => removedMark('too many findings'))
  }

  #hasCertain(rule: TextRule): boolean {
    return this.found.some(({ finding }) => finding.certain && finding.rule === rule)
  }

  *#object(value: object, pointer: string, depth: number): Reading<unknown> {
    let isChanged = false
    const changed: [string, unknown][] = []
    for (const [name, member] of Object.entries(value)) {
      // A name with a finding, which may be a secret, is not a part of a place.
      const before = this.found.length
      const shownName = yield* this.#text(name, pointer, depth)
      const at = `${pointer}/${this.found.length > before ? '*' : pathSegment(name)}`
      // What a model sends as a file may be any data.
      const type = this.#scanner.isForModel ? fileType(value, name) : undefined
      const shown =
        type !== undefined && typeof member === 'string'
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
      const shown = yield* this.#whole(inner, pointer, depth + 1)
      return shown === inner ? text : JSON.stringify(shown)
    }
    return this.#isStripping ? yield* this.#stripped(text, pointer) : yield* this.#judged(text, pointer)
  }

  *#judged(text: string, pointer: string): Reading<string> {
    yield* this.#findings(text, pointer)
    return text
  }

  /** What is removed can leave a text that is an attack, so that the rest is judged until nothing is removed from it. */
  *#stripped(text: string, pointer: string): Reading<string> {
    let shown = text
    for (let times = 0; times <= MAX_REMOVALS; times++) {
      const findings = yield* this.#findings(shown, pointer)
      if (findings === undefined) return removedMark('too long to be checked')
      const rest = stripped(shown, findings)
      if (rest === shown) return shown
      shown = rest
    }
    return removedMark('too many findings')
  }

  /** Undefined for a text that is not searched. */
  *#findings(text: string, pointer: string): Reading<readonly TextFinding[] | undefined> {
    this.#left -= text.length
    const findings = this.#left < 0 ? undefined : yield* this.#scanned(text)
    if (findings === undefined) this.isIncomplete = true
    for (const finding of findings ?? [])
      if (this.found.length < MAX_FINDINGS) this.found.push({ pointer, finding })
    return findings
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
    if (text.length < 4 * STEP) return this.#scanner.scan(text)
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

/** Members between texts of the protocol, such as `type: text`. */
const STRUCTURAL: ReadonlySet<string> = new Set(['type', 'role', 'uri', 'mimeType'])

/** Whether a member is no part of what a model reads as one text: a file, or a token between texts. */
function isApart(value: object, name: string, member: unknown): boolean {
  if (STRUCTURAL.has(name)) return typeof member === 'string' && !/\s/.test(member)
  return fileType(value, name) !== undefined
}

/** The texts of a value in their order, without names and files. */
function textsIn(value: unknown, depth = 0, texts: string[] = []): string[] {
  if (typeof value === 'string') texts.push(value)
  else if (depth > MAX_DEPTH) return texts
  else if (Array.isArray(value)) for (const item of value) textsIn(item, depth + 1, texts)
  else if (isJsonObject(value))
    for (const [name, member] of Object.entries(value))
      if (!isApart(value, name, member)) textsIn(member, depth + 1, texts)
  return texts
}

/** The value with other texts in place of its own, which are counted as in `textsIn`. */
function withTexts(value: unknown, change: (text: string, index: number) => string): unknown {
  let index = 0
  const changed = (one: unknown): unknown => {
    if (typeof one === 'string') return change(one, index++)
    if (Array.isArray(one)) return one.map(changed)
    if (!isJsonObject(one)) return one
    return Object.fromEntries(
      Object.entries(one).map(([name, member]) => [
        name,
        fileType(one, name) === undefined ? changed(member) : member,
      ]),
    )
  }
  return changed(value)
}

/** Characters of a text that can belong to what ends or begins in another. */
const AT_BORDER = 512
/** Nothing that is found spans it. */
const LEFT_OUT = '\n\n'

/** The beginnings and ends of texts as one text, and where in it each ends. */
function joinedAtBorders(texts: readonly string[]): { readonly text: string; readonly ends: number[] } {
  const ends: number[] = []
  let text = ''
  for (const one of texts) {
    text +=
      one.length <= 2 * AT_BORDER ? one : `${one.slice(0, AT_BORDER)}${LEFT_OUT}${one.slice(-AT_BORDER)}`
    ends.push(text.length)
    text += '\n'
  }
  return { text, ends }
}

/** The indices of the texts, by their ends in the joined text, that a finding is in. */
function touchedBy(findings: readonly TextFinding[], ends: readonly number[]): ReadonlySet<number> {
  const touched = new Set<number>()
  for (const { start, end } of findings) {
    for (let index = firstAbove(ends, start); index < ends.length && end > (ends[index - 1] ?? 0); index++)
      touched.add(index)
  }
  return touched
}

/** The media type of a member that is a file; undefined for other members. */
function fileType(value: object, name: string): string | undefined {
  const { mimeType, [name]: data } = value as Readonly<Record<string, unknown>>
  return BINARY.has(name) && typeof mimeType === 'string' && typeof data === 'string' ? mimeType : undefined
}

function hasText(value: unknown): boolean {
  return typeof value === 'string' || (typeof value === 'object' && value !== null)
}
