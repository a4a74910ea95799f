// Finds what the rules describe in one text, as it is and decoded.

import type { Span } from '@svc/core/pii'
import { decodedParts, type Layer } from './layers.js'
import { PhraseMatcher } from './phrases.js'
import { type TextRole, type TextRule, textRules } from './rules.js'

export interface TextFinding extends Span {
  readonly rule: TextRule
  /** How the text that was found is encoded in the given text; absent if it stands there as it is. */
  readonly encoding?: Layer['encoding'] | undefined
  /** Whether harmless text hardly looks like this. */
  readonly certain: boolean
}

/** Findings of two rules within this distance are certain, in UTF-16 code units. */
export const NEAR = 300
/** The listed findings of one text; further ones are left out. */
export const MAX_FINDINGS = 100

/** Between texts that have nothing to do with each other: no finding spans it. */
export const BARRIER = '\n\n\0\n\n'

type Found = Omit<TextFinding, 'certain'>

/** The rules for one role of texts. */
export class TextScanner {
  readonly #phrases: PhraseMatcher | undefined
  readonly #byPhrase: readonly TextRule[]
  readonly #literals: readonly (readonly [string, TextRule])[]
  readonly #detectors: readonly TextRule[]
  readonly #certain: ReadonlySet<TextRule>
  /** The rule about a text with more encoded parts than are decoded. */
  readonly #unread: TextRule | undefined
  /** Whether a model reads the texts: those of one value together, and files as what they show. */
  readonly isForModel: boolean

  constructor(role: TextRole, disabled: ReadonlySet<string> = new Set()) {
    this.isForModel = role !== 'argument'
    const rules = textRules().filter((rule) => rule.in.includes(role) && !disabled.has(rule.id))
    const phrases = rules.flatMap((rule) => rule.words.map((phrase) => ({ rule, phrase })))
    this.#phrases = phrases.length === 0 ? undefined : new PhraseMatcher(phrases.map(({ phrase }) => phrase))
    this.#byPhrase = phrases.map(({ rule }) => rule)
    this.#literals = rules.flatMap((rule) => rule.contains.map((text) => [text, rule] as const))
    this.#certain = new Set(rules.filter((rule) => rule.certain?.includes(role) ?? true))
    this.#unread = rules.find(({ detector }) => detector === 'too-many-encodings')
    this.#detectors = rules.filter(({ detect }) => detect !== undefined)
  }

  /** The findings at once, for a short text. */
  scan(text: string): TextFinding[] {
    const steps = this.steps(text)
    let step = steps.next()
    while (step.done !== true) step = steps.next()
    return step.value
  }

  /**
   * Returns certain findings first, if there are more than `MAX_FINDINGS`; else in the order of the text. Others can have a turn
   * between two steps. `hasBarriers`: the text has several that are not near each other.
   */
  *steps(text: string, hasBarriers = false): Generator<undefined, TextFinding[]> {
    const findings = (yield* this.#found(text)).sort((a, b) => a.start - b.start)
    const near = besideOthers(findings, hasBarriers ? text : '')
    const judged = findings.map((one, index) => ({
      ...one,
      certain: this.#certain.has(one.rule) || near[index] === true,
    }))
    if (judged.length <= MAX_FINDINGS) return judged
    return judged.sort((a, b) => Number(b.certain) - Number(a.certain)).slice(0, MAX_FINDINGS)
  }

  *#found(text: string): Generator<undefined, Found[]> {
    const outer = yield* this.#within(text)
    yield
    const { parts, isComplete } = decodedParts(text)
    const unread = isComplete ? undefined : this.#unread
    const findings = unread === undefined ? outer : [...outer, { rule: unread, start: 0, end: text.length }]
    const covered = parts.length === 0 ? undefined : new Covered(outer)
    for (const group of joinedParts(parts)) {
      yield
      for (const { rule, start: at } of yield* this.#within(group.text)) {
        const { encoding, start, end } = group.partAt(at)
        // Written as an escape, a character that hides text is seen.
        if (rule.class === 'hidden' && encoding === 'escapes') continue
        // The inner text is not reported for what only the outer one can have, such as a letter of another script.
        if (covered?.add(rule, start, end) === true) findings.push({ rule, start, end, encoding })
      }
    }
    return findings
  }

  *#within(text: string): Generator<undefined, Found[]> {
    const findings: Found[] = []
    for (const { phrase, start, end } of this.#phrases?.find(text) ?? []) {
      const rule = this.#byPhrase[phrase]
      if (rule !== undefined) findings.push({ rule, start, end })
    }
    for (const [literal, rule] of this.#literals) {
      const start = text.indexOf(literal)
      if (start >= 0) findings.push({ rule, start, end: start + literal.length })
    }
    for (const rule of this.#detectors) {
      yield
      const spans = rule.detect?.(text) ?? []
      // As many certain findings are all that is listed.
      const listed = this.#certain.has(rule) ? Math.min(spans.length, MAX_FINDINGS) : spans.length
      for (const { start, end } of spans.slice(0, listed)) findings.push({ rule, start, end })
    }
    return findings
  }
}

/** Characters of decoded parts that are searched at once. */
const GROUP = 4096

/** Decoded parts as one text, because many short ones would cost more. */
class PartGroup {
  text = ''
  readonly #parts: Layer[] = []
  readonly #ends: number[] = []

  add(part: Layer): void {
    this.text += part.text + BARRIER
    this.#parts.push(part)
    this.#ends.push(this.text.length)
  }

  partAt(at: number): Layer {
    const part = this.#parts[firstAbove(this.#ends, at)]
    if (part === undefined) throw new RangeError('a finding behind the last part')
    return part
  }
}

function* joinedParts(parts: readonly Layer[]): Generator<PartGroup> {
  let group = new PartGroup()
  for (const part of parts) {
    group.add(part)
    if (group.text.length < GROUP) continue
    yield group
    group = new PartGroup()
  }
  if (group.text !== '') yield group
}

/** The index of the first of ascending numbers that is above `value`; their count if none is. */
export function firstAbove(ascending: readonly number[], value: number): number {
  let [low, high] = [0, ascending.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((ascending[middle] ?? 0) <= value) low = middle + 1
    else high = middle
  }
  return low
}

/** The places of findings by rule, so that each part is compared with few of them. */
class Covered {
  /** By rule: starts in their order, and the furthest end up to each. */
  #spans = new Map<TextRule, { readonly starts: number[]; readonly furthest: number[] }>()
  /** The parts for which a rule is reported. */
  #reported = new Map<TextRule, Set<string>>()

  constructor(findings: readonly Found[]) {
    for (const { rule, start, end } of findings.toSorted((a, b) => a.start - b.start)) {
      const spans = this.#spans.get(rule) ?? { starts: [], furthest: [] }
      spans.starts.push(start)
      spans.furthest.push(Math.max(spans.furthest.at(-1) ?? 0, end))
      this.#spans.set(rule, spans)
    }
  }

  /** False if a finding of the rule covers the part already. */
  add(rule: TextRule, start: number, end: number): boolean {
    const { starts, furthest } = this.#spans.get(rule) ?? { starts: [], furthest: [] }
    if ((furthest[firstAbove(starts, start) - 1] ?? -1) >= end) return false
    const parts = this.#reported.get(rule) ?? new Set()
    this.#reported.set(rule, parts)
    const part = `${start} ${end}`
    if (parts.has(part)) return false
    parts.add(part)
    return true
  }
}

/** Whether a finding of another rule is near, for each finding in the order of their starts. */
function besideOthers(findings: readonly Found[], text: string): readonly boolean[] {
  const near = findings.map(() => false)
  const isNear = (before: Found, after: Found): boolean =>
    after.start - before.end <= NEAR && !text.slice(before.end, after.start).includes(BARRIER)
  // The furthest end before, and the furthest of another rule than that one's.
  let [last, other]: (Found | undefined)[] = []
  for (const [index, one] of findings.entries()) {
    const before = last?.rule === one.rule ? other : last
    near[index] = before !== undefined && isNear(before, one)
    if (last === undefined || one.end >= last.end) {
      if (last?.rule !== one.rule) other = last
      last = one
    } else if (one.rule !== last.rule && one.end >= (other?.end ?? 0)) other = one
  }
  let [next, second]: (Found | undefined)[] = []
  for (let index = findings.length - 1; index >= 0; index--) {
    const one = findings[index]
    if (one === undefined) continue
    const after = next?.rule === one.rule ? second : next
    if (after !== undefined && isNear(one, after)) near[index] = true
    if (next?.rule !== one.rule) second = next
    next = one
  }
  return near
}
