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

type Found = Omit<TextFinding, 'certain'>

/** The rules for one role of texts. */
export class TextScanner {
  readonly #phrases: PhraseMatcher
  readonly #byPhrase: readonly TextRule[]
  readonly #literals: readonly (readonly [string, TextRule])[]
  readonly #detectors: readonly TextRule[]
  readonly #certain: ReadonlySet<TextRule>
  /** The rule about a text with more encoded parts than are decoded. */
  readonly #unread: TextRule | undefined

  constructor(role: TextRole, disabled: ReadonlySet<string> = new Set()) {
    const rules = textRules().filter((rule) => rule.in.includes(role) && !disabled.has(rule.id))
    const phrases = rules.flatMap((rule) => rule.words.map((phrase) => ({ rule, phrase })))
    this.#phrases = new PhraseMatcher(phrases.map(({ phrase }) => phrase))
    this.#byPhrase = phrases.map(({ rule }) => rule)
    this.#literals = rules.flatMap((rule) => rule.contains.map((text) => [text, rule] as const))
    this.#certain = new Set(rules.filter((rule) => rule.certain?.includes(role) ?? true))
    this.#unread = rules.find(({ detector }) => detector === 'too-many-encodings')
    this.#detectors = rules.filter(({ detect }) => detect !== undefined)
  }

  /** Returns certain findings first, if there are more than `MAX_FINDINGS`; else in the order of the text. */
  scan(text: string): TextFinding[] {
    const findings = this.#found(text).sort((a, b) => a.start - b.start)
    const near = besideOthers(findings)
    const judged = findings.map((one, index) => ({
      ...one,
      certain: this.#certain.has(one.rule) || near[index] === true,
    }))
    if (judged.length <= MAX_FINDINGS) return judged
    return judged.sort((a, b) => Number(b.certain) - Number(a.certain)).slice(0, MAX_FINDINGS)
  }

  #found(text: string): Found[] {
    const findings: Found[] = this.#within(text)
    const { parts, isComplete } = decodedParts(text)
    const unread = isComplete ? undefined : this.#unread
    if (unread !== undefined) findings.push({ rule: unread, start: 0, end: text.length })
    for (const { encoding, text: inner, start, end } of parts) {
      for (const { rule } of this.#within(inner)) {
        // Written as an escape, a character that hides text is seen.
        if (rule.class === 'hidden' && (encoding === 'escapes' || encoding === 'entities')) continue
        // The inner text is not reported for what only the outer one can have, such as a letter of another script.
        if (!findings.some((found) => found.rule === rule && found.start <= start && found.end >= end))
          findings.push({ rule, start, end, encoding })
      }
    }
    return findings
  }

  #within(text: string): Found[] {
    const findings: Found[] = []
    for (const { phrase, start, end } of this.#phrases.find(text)) {
      const rule = this.#byPhrase[phrase]
      if (rule !== undefined) findings.push({ rule, start, end })
    }
    for (const [literal, rule] of this.#literals) {
      const start = text.indexOf(literal)
      if (start >= 0) findings.push({ rule, start, end: start + literal.length })
    }
    for (const rule of this.#detectors) {
      for (const { start, end } of rule.detect?.(text) ?? []) findings.push({ rule, start, end })
    }
    return findings
  }
}

/** Whether a finding of another rule is near, for each finding in the order of their starts. */
function besideOthers(findings: readonly Found[]): readonly boolean[] {
  const near = findings.map(() => false)
  for (const [index, one] of findings.entries()) {
    for (let next = index + 1; next < findings.length; next++) {
      const other = findings[next]
      if (other === undefined || other.start - one.end > NEAR) break
      if (other.rule !== one.rule) near[index] = near[next] = true
    }
  }
  return near
}
