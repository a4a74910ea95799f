// Finds the patterns that match a subject among many. A look-up costs a few hash probes and one pass over the subject;
// only patterns whose rarest literal occurs in it are checked one by one.

import { Automaton } from './automaton.js'
import { type Glob, globMatches, isLiteral } from './glob.js'
import type { Pattern } from './pattern.js'
import { BEGIN, END, FRESH, type Subject } from './subject.js'

/**
 * Patterns whose parts are each a literal or a single star are found by hashing their literal parts, with FRESH for any
 * server (a name may fold to the empty text): `server/tool@version`, `server/tool@`, `server/`. Others are found by their
 * rarest literal chunk, with marks for the begin and end of the text.
 */
export class PatternIndex {
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
  const server = isLiteral(pattern.server) ? pattern.server[0] : isAny(pattern.server) ? FRESH : undefined
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
