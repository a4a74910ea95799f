// The texts of a JSON value: finds what rules describe in each of them, and puts other text in their place.
import { ReadingBudget } from '../shared/reading-budget.js'
import { MAX_FINDINGS, type TextFinding, type TextScanner } from './scan.js'
import type { SearchSteps } from './text-stream.js'
import { MAX_ARGUMENTS, ValueTexts, withoutTexts } from './value-texts.js'

/** A finding in a JSON value. */
export interface PlacedFinding {
  /** JSON pointer (RFC 6901) of the string, of the object with this name, or of the value whose texts have it together. */
  readonly pointer: string
  readonly finding: TextFinding
}

/** Characters of one value that are searched; what is behind them counts as unread. */
const MAX_SEARCHED = 4 * 1024 * 1024
/** How often findings are cut out of texts, and then whole texts are removed; a value with findings after that has no texts. */
const MAX_CUTS = 2
const MAX_REMOVALS = 2
/** Characters after which others may have a turn; a value counts as some. */
const STEP = 4096
const PER_VALUE = 4

export class TextSearch {
  readonly found: PlacedFinding[] = []
  /** Whether there is text that was not searched. */
  isIncomplete = false
  readonly #scanner: TextScanner
  readonly #budget: ReadingBudget
  readonly #isStripping: boolean

  /** `isStripping`: the value is rebuilt without what was certainly found. */
  constructor(scanner: TextScanner, budget = new ReadingBudget(), isStripping = false) {
    this.#scanner = scanner
    this.#budget = budget
    this.#isStripping = isStripping
  }

  /** The same value if nothing is stripped from it. */
  value(value: unknown, pointer = ''): Promise<unknown> {
    return this.#budget.run(this.#whole(value, pointer))
  }

  /** A removal can leave texts that are an attack, so the rest is judged until nothing is removed from it. */
  *#whole(value: unknown, pointer: string): SearchSteps<unknown> {
    let shown = value
    for (let times = 0; ; times++) {
      const texts = new ValueTexts(this.#scanner)
      const isRead = yield* this.#read(shown, texts)
      if (!isRead) this.isIncomplete = true
      for (const one of texts.placed(pointer)) if (this.found.length < MAX_FINDINGS) this.found.push(one)
      if (!this.#scanner.isForModel) yield* this.#acrossArguments(texts.arguments, pointer)
      if (!this.#isStripping) return value
      if (!isRead) return withoutTexts(shown, 'too long to be checked')
      const changed = yield* texts.changed(shown, times < MAX_CUTS)
      if (changed === shown) return shown
      if (times === MAX_CUTS + MAX_REMOVALS) return withoutTexts(shown, 'too many findings')
      shown = changed
    }
  }

  /** False if there is text that was not searched. */
  *#read(value: unknown, texts: ValueTexts): SearchSteps<boolean> {
    let left = MAX_SEARCHED
    let since = 0
    for (const text of texts.collect(value)) {
      left -= text.length
      if (left < 0) return false
      this.#budget.allow(text.length + PER_VALUE)
      since += text.length + PER_VALUE
      if (since < STEP) continue
      since = 0
      yield
      if (this.#budget.isSpent || !(yield* texts.search(this.#budget))) return false
    }
    return (yield* texts.search(this.#budget, true)) && texts.isWhole
  }

  /** A program can put its short arguments together: what only they have in common is found too. */
  *#acrossArguments(texts: readonly string[], pointer: string): SearchSteps<void> {
    if (texts.length < 2 || texts.length > MAX_ARGUMENTS) return
    const known = new Set(this.found.map(({ finding }) => finding.rule))
    for (const between of [' ', ''])
      for (const finding of yield* this.#scanner.steps(texts.join(between))) {
        if (finding.rule.class !== 'command' || known.has(finding.rule)) continue
        known.add(finding.rule)
        this.found.push({ pointer, finding })
      }
  }
}
