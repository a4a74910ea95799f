// Texts that are searched as one, in parts: many short ones would cost more, and what begins in one can end in another.
import type { ReadingBudget } from '../shared/reading-budget.js'
import { BARRIER, firstAbove, MAX_FINDINGS, type TextFinding, type TextScanner } from './scan.js'

/** Characters that are searched at once. */
const PART = 16 * 1024
/** A text that is shorter than this is found at the border of two parts, and of two events. */
export const OVERLAP = 1024

/** Others can have their turn at each step. */
export type SearchSteps<T> = Generator<undefined, T>

/** A finding of one text, or of several together, by their numbers; its bounds are those in the first one. */
export interface StreamFinding {
  readonly first: number
  readonly last: number
  readonly finding: TextFinding
}

/** `Owner` is what the texts belong to. */
export class TextStream<Owner> {
  readonly found: StreamFinding[] = []
  /** The texts of each part that has more findings than are listed. */
  readonly flooded: { readonly first: number; readonly last: number; readonly what: string }[] = []
  readonly #texts: string[] = []
  readonly #owners: Owner[] = []
  readonly #scanner: TextScanner
  readonly #isOneText: boolean
  /** The index at which each text begins. */
  readonly #starts: number[] = []
  #length = 0
  /** The text that is not searched yet, behind `#overlap` characters that are. */
  #pending = ''
  #overlap = 0

  /** `isOneText`: what begins in a text can end in the next one. */
  constructor(scanner: TextScanner, isOneText: boolean) {
    this.#scanner = scanner
    this.#isOneText = isOneText
  }

  textOf(index: number): string {
    return this.#texts[index] ?? ''
  }

  ownerOf(index: number): Owner | undefined {
    return this.#owners[index]
  }

  add(text: string, owner: Owner): void {
    this.#texts.push(text)
    this.#owners.push(owner)
    this.#starts.push(this.#length)
    const added = text + (this.#isOneText ? '\n' : BARRIER)
    this.#pending += added
    this.#length += added.length
  }

  /** Searches what is enough for a part, at the end the rest too. Returns false if the budget is spent before. */
  *search(budget: ReadingBudget, isEnd = false): SearchSteps<boolean> {
    while (this.#pending.length >= PART || (isEnd && this.#pending.length > this.#overlap)) {
      yield
      if (budget.isSpent) return false
      const part = this.#pending.slice(0, PART)
      this.#take(
        yield* this.#scanner.steps(part, !this.#isOneText),
        this.#length - this.#pending.length,
        part,
      )
      this.#pending = this.#pending.slice(this.#pending.length > PART ? PART - OVERLAP : PART)
      this.#overlap = Math.min(OVERLAP, this.#pending.length)
    }
    return true
  }

  #take(findings: readonly TextFinding[], from: number, part: string): void {
    if (findings.length === MAX_FINDINGS && findings.some(({ certain }) => certain))
      this.flooded.push({
        first: this.#textAt(from),
        last: this.#textAt(from + part.length - 1),
        what: 'too many findings',
      })
    for (const finding of findings) {
      const first = this.#textAt(from + finding.start)
      const last = Math.max(first, this.#textAt(from + finding.end - 1))
      const shift = from - (this.#starts[first] ?? 0)
      this.found.push({
        first,
        last,
        finding: { ...finding, start: Math.max(0, finding.start + shift), end: finding.end + shift },
      })
    }
  }

  #textAt(offset: number): number {
    return Math.max(0, firstAbove(this.#starts, offset) - 1)
  }
}
