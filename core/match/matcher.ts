// Compiles many patterns into one matcher. A look-up costs a few hash probes and one pass over the reference; only
// patterns whose rarest literal occurs in the reference are checked one by one.

import { Automaton } from './automaton.js'
import { type Glob, globMatches, globMeets, isLiteral, NAME } from './glob.js'
import { compilePattern, hasLiteralServer, type Pattern } from './pattern.js'
import { BEGIN, END, FRESH, Subject, serverSubject, subjectOf } from './subject.js'

/** References must be canonical (`formatReference`); other text throws `ReferenceInputError`. */
export interface PatternSet {
  matches(reference: string): boolean
  /** Whether some pattern matches some reference of the server, given by its decoded name. */
  mayMatchServer(server: string): boolean
  /** Whether a single pattern matches every reference of the server, given by its decoded name. */
  coversServer(server: string): boolean
}

export interface PatternMatch<T> {
  readonly pattern: string
  readonly value: T
  /** The pattern's literal characters; equal numbers are equally specific. */
  readonly literals: number
}

/** References must be canonical (`formatReference`); other text throws `ReferenceInputError`. */
export interface PatternMap<T> {
  /** All matches, the most specific first; equally specific ones in the given order. */
  lookup(reference: string): ReadonlyArray<PatternMatch<T>>
}

/** @throws {PatternError} for the first invalid pattern */
export function compilePatternSet(patterns: Iterable<string>): PatternSet {
  const compiled = [...new Set(patterns)].map(compilePattern)
  const index = new PatternIndex(compiled)
  const servers = new ServerIndex(compiled)
  return {
    matches: (reference) => index.some(subjectOf(reference)),
    mayMatchServer: (server) => servers.has(serverSubject(server)),
    coversServer: (server) => {
      // A pattern that matches the character FRESH has a star there, and so matches any text in its place.
      const name = serverSubject(server)
      const path = `${FRESH}@${FRESH}`
      return index.some(new Subject(`${name}/${path}`, name, path))
    },
  }
}

/** @throws {PatternError} for the first invalid pattern */
export function compilePatternMap<T>(patterns: Readonly<Record<string, T>>): PatternMap<T> {
  const entries = Object.entries(patterns)
    .map(([source, value]) => ({ value, compiled: compilePattern(source) }))
    .sort((a, b) => b.compiled.literals - a.compiled.literals)
  const index = new PatternIndex(entries.map((entry) => entry.compiled))
  const matches = entries.map(({ compiled, value }) => ({
    pattern: compiled.source,
    value,
    literals: compiled.literals,
  }))
  return {
    lookup: (reference) => {
      const found: Array<PatternMatch<T>> = []
      // Positions are in order of specificity.
      for (const position of index.all(subjectOf(reference)).sort((a, b) => a - b)) {
        const match = matches[position]
        if (match !== undefined) found.push(match)
      }
      return found
    },
  }
}

/**
 * Patterns whose parts are each a literal or a single star are found by hashing their literal parts:
 * `server/tool@version`, `server/tool@`, `/tool@version`, `/tool@`, `server/`, `/`. Others are found by their
 * rarest literal chunk, with marks for the begin and end of the text.
 */
class PatternIndex {
  private readonly fixed = new Map<string, number[]>()
  private readonly starred: number[][] = []
  /** Patterns without a literal. */
  private readonly always: number[] = []
  private readonly automaton: Automaton | undefined

  constructor(private readonly patterns: readonly Pattern[]) {
    const globs = new Map<number, string[]>()
    for (const [position, pattern] of patterns.entries()) {
      const key = fixedKey(pattern)
      if (key === undefined) globs.set(position, chunksOf(pattern))
      else add(this.fixed, key, position)
    }
    const sharing = new Map<string, number>()
    for (const chunks of globs.values())
      for (const chunk of new Set(chunks)) sharing.set(chunk, (sharing.get(chunk) ?? 0) + 1)
    const byChunk = new Map<string, number[]>()
    for (const [position, chunks] of globs) {
      const rarest = rarestOf(chunks, sharing)
      if (rarest === undefined) this.always.push(position)
      else add(byChunk, rarest, position)
    }
    this.starred = [...byChunk.values()]
    if (byChunk.size > 0) this.automaton = new Automaton([...byChunk.keys()])
  }

  some(subject: Subject): boolean {
    return this.each(subject, () => true)
  }

  all(subject: Subject): number[] {
    const positions: number[] = []
    this.each(subject, (position) => {
      positions.push(position)
      return false
    })
    return positions
  }

  /** Visits the positions of the patterns that match, until `visit` returns true. */
  private each(subject: Subject, visit: (position: number) => boolean): boolean {
    const check = (position: number): boolean => {
      const pattern = this.patterns[position]
      return pattern !== undefined && matchesSubject(pattern, subject) && visit(position)
    }
    if (this.fixed.size > 0) {
      for (const key of subject.keys) if (this.fixed.get(key)?.some(visit)) return true
    }
    if (this.always.some(check)) return true
    return (
      this.automaton?.find(subject.marked, (string) => this.starred[string]?.some(check) ?? false) ?? false
    )
  }
}

function add(map: Map<string, number[]>, key: string, position: number): void {
  const list = map.get(key)
  if (list === undefined) map.set(key, [position])
  else list.push(position)
}

function fixedKey(pattern: Pattern): string | undefined {
  if (pattern.kind === 'whole') return undefined
  const server = isLiteral(pattern.server) ? pattern.server[0] : isAny(pattern.server) ? '' : undefined
  if (server === undefined) return undefined
  const [first, second] = pattern.path
  if (isLiteral(pattern.path)) return `${server}/${first}`
  if (pattern.path.length === 2 && second === '' && first.endsWith('@')) return `${server}/${first}`
  return globMatches(pattern.path, `${FRESH}@${FRESH}`) ? `${server}/` : undefined
}

function isAny(glob: Glob): boolean {
  return glob.length === 2 && glob[0] === '' && glob[1] === ''
}

/** The literal chunks of the marked text that the automaton searches for. */
function chunksOf(pattern: Pattern): string[] {
  const chunks: string[] = pattern.kind === 'whole' ? [...pattern.text] : joined(pattern.server, pattern.path)
  chunks[0] = `${BEGIN}${chunks[0] ?? ''}`
  chunks.push(`${chunks.pop() ?? ''}${END}`)
  return chunks.filter((chunk) => chunk !== '' && chunk !== BEGIN && chunk !== END)
}

function joined(server: Glob, path: Glob): string[] {
  return [...server.slice(0, -1), `${server[server.length - 1] ?? ''}/${path[0]}`, ...path.slice(1)]
}

function rarestOf(chunks: readonly string[], sharing: ReadonlyMap<string, number>): string | undefined {
  let best: string | undefined
  for (const chunk of chunks) {
    if (best === undefined) best = chunk
    else {
      const fewer = (sharing.get(chunk) ?? 0) - (sharing.get(best) ?? 0)
      if (fewer < 0 || (fewer === 0 && chunk.length > best.length)) best = chunk
    }
  }
  return best
}

function matchesSubject(pattern: Pattern, subject: Subject): boolean {
  return pattern.kind === 'whole'
    ? globMatches(pattern.text, subject.text)
    : globMatches(pattern.server, subject.server) && globMatches(pattern.path, subject.path)
}

/** Which servers a pattern of the set may match. Servers are few, so results are cached. */
class ServerIndex {
  private readonly named: ReadonlySet<string>
  private readonly globs: readonly Pattern[]
  private readonly answers = new Map<string, boolean>()

  constructor(patterns: readonly Pattern[]) {
    this.named = new Set(patterns.filter(hasLiteralServer).map((pattern) => pattern.server[0]))
    this.globs = patterns.filter((pattern) => !hasLiteralServer(pattern))
  }

  has(server: string): boolean {
    if (this.named.has(server)) return true
    const known = this.answers.get(server)
    if (known !== undefined) return known
    const answer = this.globs.some((pattern) => mayMatchServer(pattern, server))
    if (this.answers.size >= MAX_ANSWERS) this.answers.clear()
    this.answers.set(server, answer)
    return answer
  }
}

const MAX_ANSWERS = 1024

function mayMatchServer(pattern: Pattern, server: string): boolean {
  // The path of a pattern in parts can always match, or the pattern would have been refused.
  if (pattern.kind === 'parts') return globMatches(pattern.server, server)
  return PATHS.some((path) => globMeets(pattern.text, `${server}/${path}`))
}

const PATHS = [`${NAME}@${NAME}`, `prompts/${NAME}@${NAME}`, `resources/${NAME}@${NAME}`]
