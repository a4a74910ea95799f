// Collects the texts of a JSON value, with the places where they stand, and puts other text in their place.
import {
  hasDuplicateMembers,
  isJsonObject,
  isTooCostly,
  parseJsonContainer,
  pathSegment,
  stringifyJson,
} from '@svc/core/json'
import type { ReadingBudget } from '../shared/reading-budget.js'
import type { TextFinding, TextScanner } from './scan.js'
import { removedMark, stripped } from './strip.js'
import { type SearchSteps, TextStream } from './text-stream.js'

const MAX_DEPTH = 512
/** Values of one response or request; those behind them count as unread. */
const MAX_VALUES = 500_000
/** Texts of a value that look like JSON and are not; later ones are read as they are written. */
const MAX_NOT_JSON = 1_000
/** Changes after which others can have a turn. */
const AT_ONCE = 500
/** Arguments that are read together: a command line is in few and short ones. */
export const MAX_ARGUMENTS = 16
const MAX_ARGUMENT = 64

/** Members of images, audio and other files, in base64. */
const BINARY: ReadonlySet<string> = new Set(['data', 'blob'])
/** Members between texts of the protocol, such as `type: text`. */
const STRUCTURAL: ReadonlySet<string> = new Set(['type', 'role', 'uri', 'mimeType'])

/** The place of a text in a value. */
class Place {
  readonly depth: number

  constructor(
    readonly parent?: Place,
    readonly key: string | number = '',
    readonly kind: 'text' | 'name' | 'file' = 'text',
    /** The place of the member's name. */
    readonly name?: Place,
  ) {
    this.depth = parent === undefined ? 0 : parent.depth + 1
  }

  /** Without the names in `found`: a name with a finding may be a secret. */
  pointer(found: ReadonlySet<Place | undefined>): string {
    if (this.parent === undefined) return ''
    const around = this.parent.pointer(found)
    if (this.kind === 'name') return around
    return `${around}/${found.has(this.name) ? '*' : pathSegment(String(this.key))}`
  }
}

/** A value that is to be read. */
interface Unread {
  readonly value: unknown
  readonly place: Place
  /** Whether a model reads it as one text with those beside it. */
  readonly isTogether: boolean
}

/** The texts of one value: of strings, names and files, and of JSON within texts. */
export class ValueTexts {
  /** False if there are values that were not read. */
  isWhole = true
  /** Short arguments, and one more than are read together. */
  readonly arguments: string[] = []
  /** Texts that a model reads one after the other, and those that stand alone, such as names. */
  readonly #together: TextStream<Place>
  readonly #apart: TextStream<Place>
  readonly #isForModel: boolean
  #notJson = 0

  constructor(scanner: TextScanner) {
    this.#isForModel = scanner.isForModel
    this.#together = new TextStream(scanner, scanner.isForModel)
    this.#apart = new TextStream(scanner, false)
  }

  /** Returns false if the budget is spent before the end. */
  *search(budget: ReadingBudget, isEnd = false): SearchSteps<boolean> {
    return (yield* this.#together.search(budget, isEnd)) && (yield* this.#apart.search(budget, isEnd))
  }

  /** Yields each text when it is added, and an empty one for a value that has others. */
  *collect(value: unknown): Generator<string, void> {
    const left: Unread[] = [{ value, place: new Place(), isTogether: true }]
    let values = 0
    for (let next = left.pop(); next !== undefined; next = left.pop()) {
      const { value: given, place, isTogether } = next
      const within = typeof given === 'string' ? this.#jsonIn(given, place) : given
      if (typeof given === 'string' && within === undefined) {
        yield this.#add(isTogether ? this.#together : this.#apart, given, place)
        continue
      }
      if (typeof within !== 'object' || within === null) continue
      if (place.depth > MAX_DEPTH || ++values > MAX_VALUES) {
        this.isWhole = false
        if (values > MAX_VALUES) return
        continue
      }
      yield ''
      if (Array.isArray(within)) addItems(within, place, left)
      else yield* this.#members(within, place, left)
    }
  }

  *#members(object: object, place: Place, left: Unread[]): Generator<string, void> {
    const members: Unread[] = []
    for (const [key, value] of Object.entries(object)) {
      const name = new Place(place, key, 'name')
      yield this.#add(this.#apart, key, name)
      const type = this.#isForModel ? fileType(object, key) : undefined
      if (type !== undefined) {
        const text = textOfFile(String(value), type)
        if (text !== undefined) yield this.#add(this.#apart, text, new Place(place, key, 'file', name))
      } else if (mayHaveText(value)) {
        members.push({ value, place: new Place(place, key, 'text', name), isTogether: !isToken(key, value) })
      }
    }
    for (let member = members.pop(); member !== undefined; member = members.pop()) left.push(member)
  }

  #add(stream: TextStream<Place>, text: string, place: Place): string {
    stream.add(text, place)
    if (stream === this.#together && text.length <= MAX_ARGUMENT && this.arguments.length <= MAX_ARGUMENTS)
      this.arguments.push(text)
    return text
  }

  /** If several members have one name, a parser keeps one, and a model reads all. */
  #jsonIn(text: string, { depth }: Place): object | undefined {
    const inner = depth < MAX_DEPTH && this.#notJson <= MAX_NOT_JSON ? containerIn(text) : undefined
    // An error of the parser takes long.
    if (inner === null) this.#notJson++
    return inner === null || inner === undefined || hasDuplicateMembers(text, inner) ? undefined : inner
  }

  /** The findings with their places; of those that several texts have together the certain ones, at the whole value. */
  placed(pointer: string): { readonly pointer: string; readonly finding: TextFinding }[] {
    const streams = [this.#together, this.#apart]
    const found = streams.flatMap((stream) =>
      stream.found.map((one) => ({ ...one, place: stream.ownerOf(one.first) })),
    )
    const places = new Set<Place | undefined>(found.map(({ place }) => place))
    return found
      .filter(({ first, last, finding }) => first === last || finding.certain)
      .map(({ first, last, finding, place }) => ({
        pointer: first === last ? pointer + (place?.pointer(places) ?? '') : pointer,
        finding,
      }))
  }

  /** The value without what was certainly found; whole texts are removed if nothing is cut out of them. */
  *changed(value: unknown, isCutting: boolean): SearchSteps<unknown> {
    const changes = new Changes()
    let count = 0
    for (const stream of [this.#together, this.#apart]) {
      for (const [index, text] of changesIn(stream, isCutting)) {
        changes.add(stream.ownerOf(index), text)
        if (++count % AT_ONCE === 0) yield
      }
    }
    return changes.valueAt(undefined, value)
  }
}

/** New texts of those that have certain findings, by their numbers. */
function changesIn(stream: TextStream<Place>, isCutting: boolean): ReadonlyMap<number, string> {
  const changes = new Map<number, string>()
  const alone = new Map<number, TextFinding[]>()
  const floods = new Set(stream.flooded.flatMap(({ first, last }) => (first === last ? [first] : [])))
  for (const { first, last, finding } of stream.found) {
    if (first < last || floods.has(first)) continue
    const findings = alone.get(first)
    if (findings === undefined) alone.set(first, [finding])
    else findings.push(finding)
  }
  for (const [index, findings] of alone) {
    const certain = findings.find((finding) => finding.certain)
    if (certain !== undefined)
      changes.set(index, isCutting ? stripped(stream.textOf(index), findings) : removedMark(certain.rule.id))
  }
  const removed = stream.found.flatMap(({ first, last, finding }) =>
    first < last && finding.certain ? [{ first, last, what: finding.rule.id }] : [],
  )
  // Only the first one says why, so that many short texts do not become long ones, which are searched again.
  for (const { first, last, what } of [...removed, ...stream.flooded])
    for (let index = first; index <= last; index++)
      changes.set(index, index === first ? removedMark(what) : '[removed]')
  return changes
}

/** Texts that replace others of a value. */
class Changes {
  /** By the place around them, what changes within it; undefined for a value that stays and has changes in it. */
  readonly #within = new Map<Place | undefined, Map<Place, string | undefined>>()

  add(place: Place | undefined, text: string): void {
    let change: string | undefined = text
    for (let at = place; at !== undefined; at = at.parent) {
      const siblings = this.#within.get(at.parent) ?? new Map<Place, string | undefined>()
      if (change === undefined && siblings.has(at)) return
      this.#within.set(at.parent, siblings.set(at, change))
      change = undefined
    }
  }

  /** The value in a place with its changes; the place of the whole is within none. */
  valueAt(place: Place | undefined, value: unknown): unknown {
    const changes = this.#within.get(place)
    if (changes === undefined) return value
    if (place === undefined) {
      const [[root, text] = []] = changes
      return text ?? this.valueAt(root, value)
    }
    if (typeof value === 'string') return stringifyJson(this.#container(changes, parseJsonContainer(value)))
    return this.#container(changes, value)
  }

  #container(changes: ReadonlyMap<Place, string | undefined>, value: unknown): unknown {
    if (Array.isArray(value)) {
      const items = [...value]
      for (const [place, text] of changes) {
        const at = Number(place.key)
        items[at] = text ?? this.valueAt(place, value[at])
      }
      return items
    }
    if (!isJsonObject(value)) return value
    const names = new Map<string, string>()
    const members = new Map<string, unknown>(Object.entries(value))
    for (const [place, text] of changes) {
      const key = String(place.key)
      if (place.kind === 'name') names.set(key, text ?? key)
      else if (place.kind === 'file') members.set(key, Buffer.from(text ?? '').toString('base64'))
      else members.set(key, text ?? this.valueAt(place, members.get(key)))
    }
    return Object.fromEntries([...members].map(([key, member]) => [names.get(key) ?? key, member]))
  }
}

/** The value with a mark in place of its texts, except for tokens of the protocol. */
export function withoutTexts(value: unknown, what: string, depth = 0): unknown {
  if (typeof value === 'string') return removedMark(what)
  if (depth > MAX_DEPTH) return null
  if (Array.isArray(value)) return value.map((item) => withoutTexts(item, what, depth + 1))
  if (!isJsonObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      /^[\w$.:/-]{1,64}$/.test(name) ? name : removedMark(what),
      isToken(name, member) ? member : withoutTexts(member, what, depth + 1),
    ]),
  )
}

function isToken(name: string, value: unknown): value is string {
  return STRUCTURAL.has(name) && typeof value === 'string' && value.length <= 256 && !/\s/.test(value)
}

/** The JSON in a text; null if it looks like JSON and is not. */
function containerIn(text: string): object | null | undefined {
  if (!/^\s*[[{]/.test(text) || !/[\]}]/.test(text.trimEnd().slice(-1)) || isTooCostly(text)) return undefined
  return parseJsonContainer(text) ?? null
}

/** The media type of a member that is a file; undefined for other members. */
function fileType(value: object, name: string): string | undefined {
  if (!BINARY.has(name)) return undefined
  const { mimeType, [name]: data } = value as Readonly<Record<string, unknown>>
  return typeof mimeType === 'string' && typeof data === 'string' ? mimeType : undefined
}

/** Space has one place in it, as the time would be quadratic otherwise. */
const BASE64 = /^[A-Za-z0-9+/_\s-]*(?:={1,2}\s*)?$/
const TEXTUAL = /^text\/|json|xml|yaml|script/i

/** The text of a file in base64, or the given text if it is not base64; undefined for data that no model reads as text. */
function textOfFile(data: string, type: string): string | undefined {
  if (!BASE64.test(data)) return data
  if (!TEXTUAL.test(type) && !isUtf8(Buffer.from(data.slice(0, 1024), 'base64'))) return undefined
  return Buffer.from(data, 'base64').toString()
}

/** Whether the beginning of a text, which can end within a character, is UTF-8. */
function isUtf8(bytes: Uint8Array): boolean {
  try {
    return !new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true }).includes('\0')
  } catch (error) {
    if (error instanceof TypeError) return false
    throw error
  }
}

/** In reverse, as the last one is read first. */
function addItems(items: readonly unknown[], place: Place, left: Unread[]): void {
  for (let at = items.length - 1; at >= 0; at--) {
    const value = items[at]
    if (mayHaveText(value)) left.push({ value, place: new Place(place, at), isTogether: true })
  }
}

function mayHaveText(value: unknown): boolean {
  return typeof value === 'string' || (typeof value === 'object' && value !== null)
}
