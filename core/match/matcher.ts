// Compiles the patterns of a policy. Lists that allow compare references as they are written; lists that restrict
// compare every reading of a call, also with its names folded, and the strictest rule counts.

import { globMatches, globMeets, NAME } from './glob.js'
import { compilePattern, foldPattern, hasLiteralServer, type Pattern } from './pattern.js'
import { PatternIndex } from './pattern-index.js'
import { FRESH, foldNames, referenceOf, Subject, serverSubject, subjectOf } from './subject.js'

/** References must be canonical (`formatReference`); other text throws `ReferenceInputError`. */
export interface PatternSet {
  /** Whether some pattern matches the reference as it is written. Lists that allow use it. */
  matches(reference: string): boolean
  /**
   * The first of the readings (`CallRequest.readings`) that some pattern matches, for lists that restrict; with its names
   * folded, if only that matches.
   */
  findReading(readings: readonly string[]): string | undefined
  /** The first pattern that matches one of the readings, as it is written or folded; for records and explanations. */
  findPattern(readings: readonly string[]): string | undefined
  /** Whether some pattern matches some reference of the server, given by its decoded name. Lists that allow use it. */
  mayMatchServer(server: string): boolean
  /** Whether one pattern matches every reference of the server, given by its decoded name. Lists that restrict use it. */
  coversServer(server: string): boolean
}

interface PatternMatch<T> {
  readonly pattern: string
  readonly value: T
  /** The pattern's literal characters; equal numbers are equally specific. */
  readonly literals: number
}

/** All matches, the most specific first; equally specific ones in the given order. */
export type PatternMatches<T> = ReadonlyArray<PatternMatch<T>>

/** References must be canonical (`formatReference`); other text throws `ReferenceInputError`. */
export interface PatternMap<T> {
  /**
   * The matches of each of the readings (`CallRequest.readings`): two lists for each, as it is written and with its names
   * folded. The strictest of them counts.
   */
  lookup(readings: readonly string[]): ReadonlyArray<PatternMatches<T>>
}

/** @throws {PatternError} for the first invalid pattern */
export function compilePatternSet(patterns: Iterable<string>): PatternSet {
  const indexes = new Indexes([...new Set(patterns)].map(compilePattern))
  const servers = new ServerIndex(indexes.patterns)
  return {
    matches: (reference) => indexes.written.some(subjectOf(reference)),
    findReading: (readings) => {
      for (const reading of readings) {
        const subject = subjectOf(reading)
        if (indexes.written.some(subject)) return reading
        if (indexes.isFoldedApart(subject) && indexes.folded.some(subject.folded))
          return referenceOf(subject.folded)
      }
      return undefined
    },
    findPattern: (readings) => {
      const subjects = readings.map(subjectOf)
      const written = subjects.flatMap((subject) => indexes.written.all(subject))
      const found =
        written.length > 0 ? written : subjects.flatMap(({ folded }) => indexes.folded.all(folded))
      return found.length === 0 ? undefined : indexes.patterns[Math.min(...found)]?.source
    },
    mayMatchServer: (server) => servers.has(serverSubject(server)),
    coversServer: (server) => {
      const name = serverSubject(server)
      return indexes.written.some(anyOf(name)) || indexes.folded.some(anyOf(foldNames(name)))
    },
  }
}

/** A pattern that matches the character FRESH has a star there, and so matches any text in its place. */
function anyOf(server: string): Subject {
  const path = `${FRESH}@${FRESH}`
  return new Subject(`${server}/${path}`, server, path)
}

/** @throws {PatternError} for the first invalid pattern */
export function compilePatternMap<T>(patterns: Readonly<Record<string, T>>): PatternMap<T> {
  const entries = Object.entries(patterns)
    .map(([source, value]) => ({ value, compiled: compilePattern(source) }))
    .sort((a, b) => b.compiled.literals - a.compiled.literals)
  const indexes = new Indexes(entries.map((entry) => entry.compiled))
  const matches = entries.map(({ compiled, value }) => ({
    pattern: compiled.source,
    value,
    literals: compiled.literals,
  }))
  const matchesIn = (index: PatternIndex, subject: Subject): PatternMatches<T> => {
    const found: Array<PatternMatch<T>> = []
    // Positions are in order of specificity.
    for (const position of index.all(subject).sort((a, b) => a - b)) {
      const match = matches[position]
      if (match !== undefined) found.push(match)
    }
    return found
  }
  return {
    lookup: (readings) => {
      const lists: PatternMatches<T>[] = []
      for (const reading of readings) {
        const subject = subjectOf(reading)
        const written = matchesIn(indexes.written, subject)
        const isApart = indexes.isFoldedApart(subject)
        lists.push(written, isApart ? matchesIn(indexes.folded, subject.folded) : written)
      }
      return lists
    },
  }
}

/** The patterns as they are written, and with their names folded. */
class Indexes {
  readonly written: PatternIndex
  #folded: PatternIndex | undefined

  constructor(readonly patterns: readonly Pattern[]) {
    this.written = new PatternIndex(patterns)
  }

  /** Made on first use, as lists that allow never use it. */
  get folded(): PatternIndex {
    if (this.#folded === undefined) {
      const folded = this.patterns.map(foldPattern)
      const isSame = folded.every((pattern, i) => pattern === this.patterns[i])
      this.#folded = isSame ? this.written : new PatternIndex(folded)
    }
    return this.#folded
  }

  /** Whether folded names can match patterns that written ones do not match. */
  isFoldedApart(subject: Subject): boolean {
    return this.folded !== this.written || subject.folded !== subject
  }
}

/** The servers that a pattern of the set may match. Servers are few, so results are cached. */
class ServerIndex {
  private readonly named: ReadonlySet<string>
  private readonly globs: readonly Pattern[]
  private readonly matches = new Map<string, boolean>()

  constructor(patterns: readonly Pattern[]) {
    this.named = new Set(patterns.filter(hasLiteralServer).map((pattern) => pattern.server[0]))
    this.globs = patterns.filter((pattern) => !hasLiteralServer(pattern))
  }

  has(server: string): boolean {
    if (this.named.has(server)) return true
    const known = this.matches.get(server)
    if (known !== undefined) return known
    const isMatch = this.globs.some((pattern) => mayMatchServer(pattern, server))
    if (this.matches.size >= MAX_CACHED) this.matches.clear()
    this.matches.set(server, isMatch)
    return isMatch
  }
}

const MAX_CACHED = 1024

function mayMatchServer(pattern: Pattern, server: string): boolean {
  // The path of a pattern in parts can always match, else the pattern would have been refused.
  if (pattern.kind === 'parts') return globMatches(pattern.server, server)
  return PATHS.some((path) => globMeets(pattern.text, `${server}/${path}`))
}

const PATHS = [`${NAME}@${NAME}`, `prompts/${NAME}@${NAME}`, `resources/${NAME}@${NAME}`]
