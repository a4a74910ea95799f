// The texts of a JSON value: finds what rules describe in each of them, and puts other text in their place.
import { isJsonObject, pathSegment } from '@svc/core/json'
import { MAX_FINDINGS, type TextFinding, type TextScanner } from './scan.js'
import { stripped } from './strip.js'

/** A finding in a JSON value. */
export interface PlacedFinding {
  /** JSON pointer (RFC 6901) of the string, or of the object with this name. */
  readonly pointer: string
  readonly finding: TextFinding
}

/** Characters of one value that are searched. What is behind them counts as unread. */
const MAX_SEARCHED = 4 * 1024 * 1024
/** A longer text is searched in parts of this size, between which other calls have their turn. */
const PART = 64 * 1024
/** What is shorter than this is found at the border of two parts. */
const OVERLAP = 1024
const MAX_DEPTH = 512

/** Members of images, audio and other files, which no model reads as text. */
const BINARY: ReadonlySet<string> = new Set(['data', 'blob'])

export class TextSearch {
  readonly found: PlacedFinding[] = []
  /** Whether there is text that was not searched. */
  isIncomplete = false
  #scanner: TextScanner
  #isStripping: boolean
  #left = MAX_SEARCHED

  /** `isStripping`: the value is rebuilt without what was certainly found. */
  constructor(scanner: TextScanner, isStripping = false) {
    this.#scanner = scanner
    this.#isStripping = isStripping
  }

  /** The same value if nothing is stripped from it. */
  async value(value: unknown, pointer = '', depth = 0): Promise<unknown> {
    if (typeof value === 'string') return this.#text(value, pointer, depth)
    if (typeof value !== 'object' || value === null) return value
    if (depth > MAX_DEPTH) {
      this.isIncomplete = true
      return this.#isStripping ? null : value
    }
    return Array.isArray(value) ? this.#list(value, pointer, depth) : this.#object(value, pointer, depth)
  }

  async #list(value: readonly unknown[], pointer: string, depth: number): Promise<unknown> {
    const changed: unknown[] = []
    for (const [index, item] of value.entries())
      changed.push(await this.value(item, `${pointer}/${index}`, depth + 1))
    return changed.some((item, index) => item !== value[index]) ? changed : value
  }

  async #object(value: object, pointer: string, depth: number): Promise<unknown> {
    let isChanged = false
    const changed: [string, unknown][] = []
    const isFile = isJsonObject(value) && typeof value['mimeType'] === 'string'
    for (const [name, member] of Object.entries(value)) {
      // A name with a finding, which may be a secret, is not a part of a place.
      const before = this.found.length
      const shownName = await this.#text(name, pointer, depth)
      const at = `${pointer}/${this.found.length > before ? '*' : pathSegment(name)}`
      const shown = isFile && BINARY.has(name) ? member : await this.value(member, at, depth + 1)
      isChanged ||= shown !== member || shownName !== name
      changed.push([shownName, shown])
    }
    return isChanged ? Object.fromEntries(changed) : value
  }

  async #text(text: string, pointer: string, depth: number): Promise<string> {
    const inner = depth < MAX_DEPTH ? containerIn(text) : undefined
    if (inner !== undefined) {
      const shown = await this.value(inner, pointer, depth + 1)
      return shown === inner ? text : JSON.stringify(shown)
    }
    this.#left -= text.length
    if (this.#left < 0) {
      this.isIncomplete = true
      return this.#isStripping ? '[removed: too long to be checked]' : text
    }
    const findings = text.length <= PART ? this.#scanner.scan(text) : await this.#inParts(text)
    if (findings.length === 0) return text
    for (const finding of findings) {
      if (this.found.length < MAX_FINDINGS) this.found.push({ pointer, finding })
    }
    return this.#isStripping ? stripped(text, findings) : text
  }

  async #inParts(text: string): Promise<readonly TextFinding[]> {
    const findings: TextFinding[] = []
    for (let start = 0; start < text.length; start += PART) {
      await new Promise((resolve) => setImmediate(resolve))
      const from = Math.max(0, start - OVERLAP)
      for (const one of this.#scanner.scan(text.slice(from, start + PART)))
        findings.push({ ...one, start: one.start + from, end: one.end + from })
    }
    return findings
  }
}

/** The JSON array or object that a text holds; undefined for other text. */
function containerIn(text: string): object | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : undefined
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}
