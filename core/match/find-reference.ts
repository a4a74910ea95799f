// Finds a reference that some lists of patterns match and others do not: a breadth-first search over the product of their
// automata, with one symbol for each class of characters that no pattern tells apart.

import { GlobAutomaton } from './glob-automaton.js'
import { type NameSymbol, nameSymbols, versionSymbols } from './name-symbols.js'
import { NotComparableError } from './not-comparable.js'
import { compilePattern, foldPattern, type Pattern } from './pattern.js'
import { formatReference, parseReference, ReferenceInputError } from './reference.js'
import { referenceOf, subjectOfText } from './subject.js'

/** Patterns of which one must match. */
export interface MatchedList {
  readonly patterns: readonly string[]
  /** Whether names are also compared folded, which lists that restrict need. */
  readonly isFolded?: boolean
}

export interface ReferenceSearch {
  /** Lists that match the reference. */
  readonly inside: readonly MatchedList[]
  /** Lists that do not. */
  readonly outside: readonly MatchedList[]
}

const MAX_STATES = 20_000

/**
 * A shortest such reference; undefined if there is none.
 *
 * @throws {PatternError} for an invalid pattern
 * @throws {NotComparableError}
 */
export function findReference({ inside: all, outside }: ReferenceSearch): string | undefined {
  const inside = all.map((list) => withoutExcluded(list, outside))
  if (inside.some(({ patterns }) => patterns.length === 0)) return undefined
  const [first] = inside
  const relevant = (list: MatchedList): MatchedList =>
    first?.patterns.length === 1
      ? { ...list, patterns: list.patterns.filter((other) => mayMeet(first.patterns[0] ?? '', other)) }
      : list
  return new Search(
    inside.map((list) => readersOf(relevant(list))),
    outside.map((list) => readersOf(relevant(list))),
  ).run()
}

/** Without patterns that `outside` has too, because what they match is not wanted: two nearly equal lists differ in few. */
function withoutExcluded(list: MatchedList, outside: readonly MatchedList[]): MatchedList {
  const excluding = outside.filter(({ isFolded }) => isFolded === true || list.isFolded !== true)
  const excluded = new Set(excluding.flatMap(({ patterns }) => patterns))
  return { ...list, patterns: list.patterns.filter((pattern) => !excluded.has(pattern)) }
}

/** False only if no reference matches both patterns, even with its names folded. */
function mayMeet(a: string, b: string): boolean {
  const [first, second] = [prefixOf(a), prefixOf(b)]
  return first.startsWith(second) || second.startsWith(first)
}

/** A comparison asks for the same patterns again and again. */
const prefixes = new Map<string, string>()
const MAX_PREFIXES = 10_000

function prefixOf(source: string): string {
  let prefix = prefixes.get(source)
  if (prefix === undefined) {
    if (prefixes.size >= MAX_PREFIXES) prefixes.clear()
    prefix = foldedPrefix(source)
    prefixes.set(source, prefix)
  }
  return prefix
}

/** The folded literal beginning, without characters that a fold may remove at the ends of names. */
function foldedPrefix(source: string): string {
  const pattern = foldPattern(compilePattern(source))
  if (pattern.kind === 'whole') return pattern.text[0].replace(/[\s.]/g, '')
  const [server] = pattern.server
  const prefix = pattern.server.length > 1 ? server : `${server}/${pattern.path[0]}`
  return prefix.replace(/[\s.]/g, '')
}

/** One pattern, on the text as it is written or on its fold. */
interface Reader {
  readonly automaton: GlobAutomaton
  readonly isFolded: boolean
}

function readersOf({ patterns, isFolded = false }: MatchedList): Reader[] {
  const compiled = [...new Set(patterns)].map(compilePattern)
  for (const pattern of compiled) checkVersion(pattern)
  const written = compiled.map((pattern) => ({ automaton: new GlobAutomaton(pattern), isFolded: false }))
  if (!isFolded) return written
  return [
    ...written,
    ...compiled.map((pattern) => ({ automaton: new GlobAutomaton(foldPattern(pattern)), isFolded })),
  ]
}

/** A name with "@" in a URL path may be read with such a version, and only then. */
function checkVersion(pattern: Pattern): void {
  const path = pattern.kind === 'whole' ? pattern.text : pattern.path
  if (/@.*[^A-Za-z0-9._+-]/s.test(path.join('')))
    throw new NotComparableError(`"${pattern.source}" has a character in its version that no version has`)
}

/** The part of a reference that is being written. */
type Part = 'server' | 'tool' | 'name' | 'version'

/**
 * The state of the current name: only characters that the fold removes, a kept character last, a removable one that a kept one
 * must follow, or removable ones up to the end of the name.
 */
type Trim = 'start' | 'kept' | 'between' | 'end'

interface State {
  readonly part: Part
  readonly trim: Trim
  /** Whether the name ends in a character that no pattern has, so that another name is tried if one is not valid. */
  readonly isFresh: boolean
  /** The state of every automaton. */
  readonly positions: readonly number[]
  readonly text: string
}

class Search {
  readonly #readers: readonly Reader[]
  /** The indexes of the readers of each list. */
  readonly #inside: readonly (readonly number[])[]
  readonly #outside: readonly (readonly number[])[]
  readonly #names: readonly NameSymbol[]
  readonly #versions: readonly NameSymbol[]
  readonly #seen = new Set<string>()
  #queue: State[] = []
  #hasInvalid = false

  constructor(inside: readonly (readonly Reader[])[], outside: readonly (readonly Reader[])[]) {
    const readers = [...inside, ...outside].flat()
    const indexes = new Map(readers.map((reader, index) => [reader, index]))
    const indexesOf = (list: readonly Reader[]) => list.map((reader) => indexes.get(reader) ?? 0)
    this.#readers = readers
    this.#inside = inside.map(indexesOf)
    this.#outside = outside.map(indexesOf)
    const charactersOf = (folded: boolean) =>
      readers.flatMap(({ automaton, isFolded }) => (isFolded === folded ? automaton.characters : []))
    this.#names = nameSymbols({ written: charactersOf(false), folded: charactersOf(true) })
    this.#versions = versionSymbols(this.#names)
  }

  run(): string | undefined {
    const begin = this.#readers.map(({ automaton }) => automaton.start)
    this.#add({ part: 'server', trim: 'start', isFresh: false, positions: begin, text: '' })
    for (let at = 0; at < this.#queue.length; at++) {
      const state = this.#queue[at]
      if (state === undefined) break
      const found = this.#foundAt(state)
      if (found !== undefined) return found
      this.#expand(state)
      if (this.#queue.length > MAX_STATES) throw new NotComparableError('the patterns have too many overlaps')
    }
    if (this.#hasInvalid) throw new NotComparableError('only names that cannot be called were found')
    return undefined
  }

  #foundAt({ part, trim, positions, text }: State): string | undefined {
    if (part !== 'version' || trim === 'start' || trim === 'between' || !this.#isWanted(positions))
      return undefined
    const reference = referenceOf(subjectOfText(text))
    if (isCanonical(reference)) return reference
    this.#hasInvalid = true
    return undefined
  }

  #expand(state: State): void {
    const { part, trim } = state
    const symbols = part === 'version' ? this.#versions : this.#names
    for (const symbol of symbols) this.#addSymbol(state, symbol)
    if (trim === 'start' || trim === 'between') {
      if (part === 'tool' && state.text.endsWith('/')) {
        for (const kind of ['prompts/', 'resources/'])
          this.#step(state, kind, kind, { part: 'name', trim: 'start', isFresh: false })
      }
      return
    }
    if (part === 'server') this.#step(state, '/', '/', { part: 'tool', trim: 'start', isFresh: false })
    else if (part !== 'version')
      this.#step(state, '@', '@', { part: 'version', trim: 'start', isFresh: state.isFresh })
  }

  #addSymbol(state: State, { text, folded, isRemovable, isFresh }: NameSymbol): void {
    const { part, trim } = state
    const add = (next: Trim, emitted: string) =>
      this.#step(state, text, emitted, {
        part,
        trim: next,
        isFresh: part === 'version' ? state.isFresh : isFresh,
      })
    // A character that folds to nothing leaves the name as it is.
    if (folded === '') add(trim, '')
    else if (!isRemovable) {
      if (trim !== 'end') add('kept', folded)
    } else if (trim === 'start' || trim === 'end') add(trim, '')
    else {
      add('between', folded)
      if (trim === 'kept') add('end', '')
    }
  }

  #step(state: State, text: string, folded: string, next: Pick<State, 'part' | 'trim' | 'isFresh'>): void {
    const positions = this.#readers.map(({ automaton, isFolded }, index) =>
      automaton.read(state.positions[index] ?? 0, isFolded ? folded : text),
    )
    this.#add({ ...next, positions, text: state.text + text })
  }

  #add(state: State): void {
    const { part, trim, isFresh, positions } = state
    if (!this.#mayBeWanted(positions)) return
    const key = `${part} ${trim} ${isFresh} ${positions.join(' ')}`
    if (this.#seen.has(key)) return
    this.#seen.add(key)
    this.#queue.push(state)
  }

  #isWanted(positions: readonly number[]): boolean {
    const isIn = (list: readonly number[]) =>
      this.#some(list, positions, (automaton, position) => automaton.accepts(position))
    return this.#inside.every(isIn) && !this.#outside.some(isIn)
  }

  #mayBeWanted(positions: readonly number[]): boolean {
    const isAlive = (automaton: GlobAutomaton, position: number) => !automaton.isDead(position)
    const acceptsAll = (automaton: GlobAutomaton, position: number) => automaton.acceptsAll(position)
    return (
      this.#inside.every((list) => this.#some(list, positions, isAlive)) &&
      !this.#outside.some((list) => this.#some(list, positions, acceptsAll))
    )
  }

  #some(
    list: readonly number[],
    positions: readonly number[],
    test: (automaton: GlobAutomaton, position: number) => boolean,
  ): boolean {
    return list.some((index) => {
      const reader = this.#readers[index]
      return reader !== undefined && test(reader.automaton, positions[index] ?? 0)
    })
  }
}

function isCanonical(reference: string): boolean {
  try {
    return formatReference(parseReference(reference)) === reference
  } catch (error) {
    if (error instanceof ReferenceInputError) return false
    throw error
  }
}
