// Compiles `fs_allowlist`. `*` matches any characters of one segment, `**` any number of segments.
import { type Glob, globMatches, globOf } from '@svc/core/match'
import { type NormalizedPath, normalizePath, PathError } from './normalize.js'

/** An invalid pattern; the message is for the author of the policy. */
export class PathPatternError extends Error {
  override readonly name = 'PathPatternError'
}

interface PathPattern {
  readonly root: string
  /** The segments between the `**` of the pattern; at least one run, which may be empty. */
  readonly runs: readonly (readonly Glob[])[]
}

/**
 * @param base of relative patterns
 * @throws {PathPatternError}
 */
export function parsePathPattern(source: string, base: NormalizedPath | undefined): PathPattern {
  if (/[?[\]{}]/.test(source))
    throw new PathPatternError('?, [ ] and { } are not supported; the wildcards are * and **')
  const segments = source.split(/[\\/]/)
  if (segments.includes('..')) throw new PathPatternError('".." is not supported; write the resolved path')
  if (segments.some((segment) => segment.includes('**') && segment !== '**'))
    throw new PathPatternError('** must be a whole segment, as in /srv/**/x')
  const path = parse(source, base)
  if (path.root.includes('*')) throw new PathPatternError('* is not supported in a home or server name')
  const runs: Glob[][] = [[]]
  for (const segment of path.segments) {
    if (segment === '**') runs.push([])
    else runs[runs.length - 1]?.push(globOf(segment))
  }
  return { root: path.root, runs }
}

/**
 * Parses `fs_root`.
 *
 * @throws {PathPatternError}
 */
export function parseRoot(source: string): NormalizedPath {
  const path = parse(source, undefined)
  if (path.root === '' || path.root.startsWith('~') || source.includes('*'))
    throw new PathPatternError('must be an absolute path without *')
  return path
}

function parse(source: string, base: NormalizedPath | undefined): NormalizedPath {
  try {
    // In a pattern, unlike in an argument, `//` cannot be a URL: it starts a Windows share.
    return normalizePath(source.replace(/^\/\//, '\\\\'), { base, isWindows: true })
  } catch (error) {
    if (error instanceof PathError) throw new PathPatternError(`this path ${error.message}`)
    throw error
  }
}

export class FsAllowlist {
  #byRoot = new Map<string, PathPattern[]>()

  /** @throws {PathPatternError} for the first invalid pattern */
  constructor(
    readonly sources: readonly string[],
    readonly base: NormalizedPath | undefined,
  ) {
    for (const source of sources) {
      const pattern = parsePathPattern(source, base)
      this.#byRoot.set(pattern.root, [...(this.#byRoot.get(pattern.root) ?? []), pattern])
    }
  }

  allows({ root, segments }: NormalizedPath): boolean {
    return this.#byRoot.get(root)?.some((pattern) => matches(pattern.runs, segments)) ?? false
  }
}

/**
 * Matches the first run at the start, the last at the end, and each other at the first position after the previous one.
 * If any positions match, these do, so no backtracking is needed.
 */
function matches(runs: PathPattern['runs'], segments: readonly string[]): boolean {
  const first = runs[0] ?? []
  if (runs.length === 1) return first.length === segments.length && matchesAt(first, segments, 0)
  const last = runs[runs.length - 1] ?? []
  const end = segments.length - last.length
  let from = first.length
  if (from > end || !matchesAt(first, segments, 0) || !matchesAt(last, segments, end)) return false
  for (const run of runs.slice(1, -1)) {
    while (from + run.length <= end && !matchesAt(run, segments, from)) from++
    from += run.length
    if (from > end) return false
  }
  return true
}

function matchesAt(run: readonly Glob[], segments: readonly string[], at: number): boolean {
  return run.every((glob, i) => globMatches(glob, segments[at + i] ?? ''))
}
